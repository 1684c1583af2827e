"""Who asks: the peer of a unix socket, or the token that a request shows; and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request

from vgpumgr.access.token_secret import looks_like_token
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
    address = address_of(request)
    if request.headers.get("authorization"):
        secret = shown_secret(request)
        if looks_like_token(secret):
            return access.tokens.authenticate(secret, address)
        return access.logins.authenticate(secret, address)
    if peer.uid is not None:
        return access.of_account(peer.uid)
    if peer.certificate is not None:
        return access.of_certificate(peer.certificate, address)
    raise LoginRefused("not logged in", next="vgpumgr login, or show an API token")


def shown_secret(request: Request) -> str:
    """The secret that a request shows; LoginRefused where it is none."""
    shown = request.headers.get("authorization", "")
    if not shown.lower().startswith(_BEARER):
        raise LoginRefused("only bearer tokens are taken", next="Authorization: Bearer vgm_…")
    return shown[len(_BEARER) :].strip()


def address_of(request: Request) -> str:
    """Where a request came from; empty for this machine's socket."""
    peer: Peer = request.scope.get(PEER, Peer())
    return request.client.host if request.client and peer.uid is None else ""
