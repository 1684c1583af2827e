"""Logging in with a browser: at the identity provider, or with an API token; and out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.api.authentication import LOGIN_COOKIE, address_of, of_secret, own_origin
from vgpumgr.api.service import Service
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.errors import LoginRefused, NotFound, VgpumgrError
from vgpumgr.web.html_answers import error_page, html, to_page
from vgpumgr.web.page_routes import bare_frame
from vgpumgr.web.rendering import render

ATTEMPT_COOKIE = "__Host-vgpumgr-login"
LONGEST_S = 8 * 3600
"""How long a browser keeps what logs it in."""
_CALLBACK = "/login/callback"


@dataclass(frozen=True, slots=True)
class LoginPages:
    """The pages of a login."""

    service: Service

    def show(self, request: Request) -> Response:
        """Where to log in."""
        return html(render("login.html", self._values(request, "")))

    def with_token(self, request: Request, body: bytes) -> Response:
        """Log in with the API token that was typed."""
        secret = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        address = address_of(request)
        try:
            _require_own_origin(request)
            self.service.limits.count_login(address)
            of_secret(self.service.app.access, secret, address)
        except VgpumgrError as error:
            self._refused(request, error)
            return html(render("login.html", self._values(request, error.message)), 401)
        return _logged_in(secret, _next(request))

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
        access, address = self.service.app.access, address_of(request)
        secret, _, path = request.cookies.get(ATTEMPT_COOKIE, "").partition("|")
        try:
            attempt = access.pending_logins.take(secret)
            if access.oidc is None:
                raise NotFound("no identity provider is set")
            principal = access.oidc.finish(attempt, dict(request.query_params))
            with acting(access.of_principal(principal, address).actor):
                _, session = access.logins.begin(principal, address)
        except VgpumgrError as error:
            self._refused(request, error)
            return error_page(error, bare_frame())
        answer = _logged_in(session, local_path(path))
        _set(answer, ATTEMPT_COOKIE, "", 0)
        return answer

    def end(self, request: Request) -> Response:
        """Log out: the session is ended for good, a token is forgotten by this browser."""
        try:
            _require_own_origin(request)
            who = self.service.known(request)
            if request.cookies.get(LOGIN_COOKIE) and who.actor.method.value == "browser":
                with acting(who.actor):
                    self.service.app.writable_ledger.end_login(who.actor.credential, "logged out")
        except LoginRefused:
            pass
        answer = to_page("/login")
        _set(answer, LOGIN_COOKIE, "", 0)
        return answer

    def _values(self, request: Request, refused: str) -> dict[str, Any]:
        access = self.service.app.access
        issuer = self.service.app.config.auth_oidc_issuer if access.oidc else ""
        values = {"title": "Log in", "next": _next(request), "refused": refused}
        return {**bare_frame(), **values, "provider": urlsplit(issuer).hostname or ""}

    def _refused(self, request: Request, error: VgpumgrError) -> None:
        if isinstance(error, LoginRefused):
            self.service.refused(Actor(user="", address=address_of(request)), error)


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

    @site.post("/login", include_in_schema=False)
    async def with_token(request: Request) -> Response:
        body = await request.body()
        return await to_thread.run_sync(lambda: pages.with_token(request, body))

    for path, handler, method in (
        ("/login", pages.show, "GET"),
        ("/login/provider", pages.begin, "GET"),
        (_CALLBACK, pages.finish, "GET"),
        ("/logout", pages.end, "POST"),
    ):
        site.add_api_route(path, handler, methods=[method], include_in_schema=False)
