"""Who asks: the peer of the socket, and later what a request shows."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from fastapi import Request

from vgpumgr.app.actor import machine
from vgpumgr.model.actor import Actor, LoginMethod
from vgpumgr.model.errors import NotPermitted

PEER = "vgpumgr.peer"
"""Where the connection's peer is in a request's scope."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection: of a unix socket its ``uid``, of TLS the ``certificate`` it
    showed (DER).
    """

    uid: int | None = None
    certificate: bytes | None = None


def actor_of(request: Request) -> Actor:
    """Who asks; NotPermitted where it is not known."""
    peer: Peer = request.scope.get(PEER, Peer())
    if peer.uid is not None and peer.uid in {0, os.geteuid()}:
        return Actor(user=f"{_name(peer.uid)}@{machine()}", method=LoginMethod.SOCKET)
    raise NotPermitted("not logged in", next="vgpumgr login")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
