"""Who asks: the peer of a unix socket, or the token that a request shows; and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request

from vgpumgr.model.errors import LoginRefused

if TYPE_CHECKING:
    from vgpumgr.app.access_control import AccessControl
    from vgpumgr.identity.established import Established

PEER = "vgpumgr.peer"
"""Where the connection's peer is in a request's scope."""
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection: of a unix socket its ``uid``, of TLS the ``certificate`` it
    showed (DER).
    """

    uid: int | None = None
    certificate: bytes | None = None


def authenticate(access: AccessControl, request: Request) -> Established:
    """Who asks, with the grants of this moment; LoginRefused where that is not established."""
    peer: Peer = request.scope.get(PEER, Peer())
    address = request.client.host if request.client and peer.uid is None else ""
    shown = request.headers.get("authorization", "")
    if shown:
        if not shown.lower().startswith(_BEARER):
            raise LoginRefused("only bearer tokens are taken", next="Authorization: Bearer vgm_…")
        return access.tokens.authenticate(shown[len(_BEARER) :].strip(), address)
    if peer.uid is not None:
        return access.of_account(peer.uid)
    raise LoginRefused("not logged in", next="vgpumgr token create, and show the token")
