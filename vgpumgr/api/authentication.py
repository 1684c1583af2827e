"""Who asks: the peer of a unix socket, or the token or cookie that a request shows; and what they
may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi.requests import HTTPConnection

from vgpumgr.access.token_secret import looks_like_token
from vgpumgr.model.errors import LoginRefused

if TYPE_CHECKING:
    from vgpumgr.app.access_control import AccessControl
    from vgpumgr.identity.established import Established

PEER = "vgpumgr.peer"
"""Where the connection's peer is in a request's scope, also of one that became a websocket."""
LOGIN_COOKIE = "__Host-vgpumgr"
"""The cookie that holds a browser's session secret, or the API token that was typed in."""
_BEARER = "bearer "
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection: of a unix socket its ``uid``, of TLS the ``certificate`` it
    showed (DER); ``reader``: of the loopback listener, where a login is not needed to read.
    """

    uid: int | None = None
    certificate: bytes | None = None
    reader: bool = False


def authenticate(access: AccessControl, request: HTTPConnection) -> Established:
    """Who asks, with the grants of this moment; LoginRefused where that is not established."""
    peer: Peer = request.scope.get(PEER, Peer())
    address = address_of(request)
    if request.headers.get("authorization"):
        return of_secret(access, shown_secret(request), address)
    if secret := request.cookies.get(LOGIN_COOKIE):
        _require_own_page(request)
        return of_secret(access, secret, address)
    if peer.uid is not None:
        return access.of_account(peer.uid)
    if peer.certificate is not None:
        _require_own_page(request)
        return access.of_certificate(peer.certificate, address)
    if peer.reader and _asked_by_address(request):
        return access.anonymous(address)
    raise LoginRefused("not logged in", next="vgpumgr login, or show an API token")


def shows_login(request: HTTPConnection) -> bool:
    """Whether it shows anything that was to log it in: what is refused then may be a guess."""
    return bool(request.headers.get("authorization") or request.cookies.get(LOGIN_COOKIE))


def of_secret(access: AccessControl, secret: str, address: str) -> Established:
    """Whose API token or session it is; LoginRefused where it is none."""
    if looks_like_token(secret):
        return access.tokens.authenticate(secret, address)
    return access.logins.authenticate(secret, address)


def _require_own_page(request: HTTPConnection) -> None:
    """A browser shows its cookie, or its certificate, whichever page asks: what changes something
    must come from a page of ours. LoginRefused otherwise.
    """
    if request.scope.get("method", "GET") in _SAFE or "sec-fetch-site" not in request.headers:
        own = request.headers.get("origin") in {None, own_origin(request)}
    else:
        own = request.headers["sec-fetch-site"] in {"same-origin", "none"}
    if not own:
        raise LoginRefused(
            "the request comes from another site's page",
            why="a login in a browser is for vgpumgr's own pages",
            next="show an API token: Authorization: Bearer vgm_…",
        )


def _asked_by_address(request: HTTPConnection) -> bool:
    """Whether the loopback is what was asked for, not some other name that leads there: a page
    from elsewhere could have such a name.
    """
    return (request.url.hostname or "") in {"127.0.0.1", "localhost"}


def own_origin(request: HTTPConnection) -> str:
    """The origin of our own pages, as the browser that asks names it."""
    secure = request.url.scheme in {"https", "wss"}
    return f"{'https' if secure else 'http'}://{request.headers.get('host', '')}"


def shown_secret(request: HTTPConnection) -> str:
    """The secret that a request shows; LoginRefused where it is none."""
    shown = request.headers.get("authorization", "")
    if not shown.lower().startswith(_BEARER):
        raise LoginRefused("only bearer tokens are taken", next="Authorization: Bearer vgm_…")
    return shown[len(_BEARER) :].strip()


def address_of(request: HTTPConnection) -> str:
    """Where a request came from; empty for this machine's socket."""
    peer: Peer = request.scope.get(PEER, Peer())
    return request.client.host if request.client and peer.uid is None else ""
