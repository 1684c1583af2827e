"""Logging in with a browser: at the identity provider, by a password at the directory, or with an
API token; and out again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.access.principal import Principal
from vgpumgr.api.authentication import LOGIN_COOKIE, address_of, of_secret, own_origin
from vgpumgr.api.login_routes import directory_principal
from vgpumgr.api.service import Service
from vgpumgr.model.actor import Actor, LoginMethod, acting
from vgpumgr.model.errors import LoginRefused, NotFound, VgpumgrError
from vgpumgr.web.html_answers import error_page, html, to_page
from vgpumgr.web.page_routes import bare_frame
from vgpumgr.web.rendering import render

ATTEMPT_COOKIE = "__Host-vgpumgr-login"
LONGEST_S = 8 * 3600
"""How long a browser keeps what logs it in."""
_CALLBACK = "/login/callback"
_SESSIONS = frozenset({LoginMethod.BROWSER, LoginMethod.DIRECTORY})


@dataclass(frozen=True, slots=True)
class LoginPages:
    """The pages of a login."""

    service: Service

    def show(self, request: Request) -> Response:
        """Where to log in."""
        return html(render("login.html", self._values(request, "")))

    def with_token(self, request: Request, body: bytes) -> Response:
        """Log in with the API token that was typed."""
        secret = _field(body, "token").strip()
        address = address_of(request)
        try:
            _require_own_origin(request)
            self.service.limits.count_login(address)
            of_secret(self.service.app.access, secret, address)
        except VgpumgrError as error:
            self._refused(request, error)
            return html(render("login.html", self._values(request, error.message)), 401)
        self.service.limits.login_succeeded(address)
        return _logged_in(secret, _next(request))

    def with_password(self, request: Request, body: bytes) -> Response:
        """Log in at the directory with the name and the password that were typed."""
        user, password = _field(body, "user").strip(), _field(body, "password")
        try:
            _require_own_origin(request)
            principal = directory_principal(self.service, user, password, address_of(request))
        except VgpumgrError as error:
            return html(render("login.html", self._values(request, error.message, user)), 401)
        return _logged_in(self._session_of(principal, request), _next(request))

    def begin(self, request: Request) -> Response:
        """To the identity provider."""
        access = self.service.app.access
        try:
            self.service.limits.count_login(address_of(request))
            if access.oidc is None:
                raise NotFound("no identity provider is set", next="log in with an API token")
            where, attempt = access.oidc.begin(own_origin(request) + _CALLBACK)
        except VgpumgrError as error:
            return error_page(error, bare_frame())
        answer = to_page(where)
        secret = access.pending_logins.keep(attempt)
        _set(answer, ATTEMPT_COOKIE, f"{secret}|{_next(request)}", 600)
        return answer

    def finish(self, request: Request) -> Response:
        """Back from the identity provider."""
        access = self.service.app.access
        secret, _, path = request.cookies.get(ATTEMPT_COOKIE, "").partition("|")
        try:
            attempt = access.pending_logins.take(secret)
            if access.oidc is None:
                raise NotFound("no identity provider is set")
            principal = access.oidc.finish(attempt, dict(request.query_params))
            session = self._session_of(principal, request)
        except VgpumgrError as error:
            self._refused(request, error)
            return error_page(error, bare_frame())
        self.service.limits.login_succeeded(address_of(request))
        answer = _logged_in(session, local_path(path))
        _set(answer, ATTEMPT_COOKIE, "", 0)
        return answer

    def end(self, request: Request) -> Response:
        """Log out: the session is ended for good, a token is forgotten by this browser."""
        try:
            _require_own_origin(request)
            who = self.service.known(request)
            if request.cookies.get(LOGIN_COOKIE) and who.actor.method in _SESSIONS:
                with acting(who.actor):
                    self.service.app.writable_ledger.end_login(who.actor.credential, "logged out")
        except LoginRefused:
            pass
        answer = to_page("/login")
        _set(answer, LOGIN_COOKIE, "", 0)
        return answer

    def _session_of(self, principal: Principal, request: Request) -> str:
        """A new session's secret."""
        access, address = self.service.app.access, address_of(request)
        with acting(access.of_principal(principal, address).actor):
            return access.logins.begin(principal, address)[1]

    def _values(self, request: Request, refused: str, user: str = "") -> dict[str, Any]:
        access = self.service.app.access
        issuer = self.service.app.config.auth_oidc_issuer if access.oidc else ""
        return {
            **bare_frame(),
            "title": "Log in",
            "next": _next(request),
            "refused": refused,
            "provider": urlsplit(issuer).hostname or "",
            "directory": access.directory is not None,
            "user": user[:200],
        }

    def _refused(self, request: Request, error: VgpumgrError) -> None:
        if isinstance(error, LoginRefused):
            self.service.refused(Actor(user="", address=address_of(request)), error)


def _field(body: bytes, name: str) -> str:
    """What was typed in a field of a form."""
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0]


def _require_own_origin(request: Request) -> None:
    """A form of another site's page logs no user in, or out."""
    if request.headers.get("origin", own_origin(request)) != own_origin(request):
        raise LoginRefused("the form comes from another site's page")


def _logged_in(secret: str, path: str) -> Response:
    answer = to_page(path)
    _set(answer, LOGIN_COOKIE, secret, LONGEST_S)
    return answer


def _set(answer: Response, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(
        name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax"
    )


def _next(request: Request) -> str:
    return local_path(request.query_params.get("next", "/"))


def local_path(text: str) -> str:
    """The path if it is one of this site, else its beginning: a login leads to no other site."""
    plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"


def add_login_pages(site: FastAPI, service: Service) -> None:
    """Add them."""
    pages = LoginPages(service)

    async def with_token(request: Request) -> Response:
        return await _in_thread(pages.with_token, request, await request.body())

    async def with_password(request: Request) -> Response:
        return await _in_thread(pages.with_password, request, await request.body())

    async def begin(request: Request) -> Response:
        return await _in_thread(pages.begin, request)

    async def finish(request: Request) -> Response:
        return await _in_thread(pages.finish, request)

    async def _in_thread(work: Callable[..., Response], *given: object) -> Response:
        """Logins may wait for another server, and do so in threads of their own."""
        return await to_thread.run_sync(work, *given, limiter=service.for_logins)

    handlers: tuple[tuple[str, Callable[..., Any], str], ...] = (
        ("/login", pages.show, "GET"),
        ("/login", with_token, "POST"),
        ("/login/directory", with_password, "POST"),
        ("/login/provider", begin, "GET"),
        (_CALLBACK, finish, "GET"),
        ("/logout", pages.end, "POST"),
    )
    for path, handler, method in handlers:
        site.add_api_route(path, handler, methods=[method], include_in_schema=False)
