"""Logins of the command line: at the identity provider by a code that is typed in a browser, at a
directory by a password.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, SecretStr

from vgpumgr.api.authentication import address_of, shown_secret
from vgpumgr.api.incoming_call import PREFIX
from vgpumgr.api.problems import failures
from vgpumgr.identity.directory_login import LONGEST_PASSWORD
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.errors import LoginRefused, NotFound

if TYPE_CHECKING:
    from vgpumgr.access.principal import Principal
    from vgpumgr.api.service import Service
    from vgpumgr.identity.oidc_login import DeviceLogin, OidcLogin

MOST = 200
"""The number of logins under way; the oldest are forgotten beyond it."""


class BegunLogin(BaseModel):
    """A login to be ended in a browser at ``verification_uri``, with ``user_code``; it is asked
    about every ``interval_s`` seconds.
    """

    login: str
    user_code: str
    verification_uri: str
    complete_uri: str
    interval_s: float
    expires_s: float


class LoginPoll(BaseModel):
    """A login that was begun, by the secret that was told of it."""

    login: str = Field(min_length=1, max_length=255)


class PasswordLogin(BaseModel):
    """A login at the directory."""

    user: str = Field(min_length=1, max_length=200)
    password: SecretStr = Field(min_length=1, max_length=LONGEST_PASSWORD)


class PolledLogin(BaseModel):
    """Whether it has ended; then ``secret`` is the bearer token of the session, shown once."""

    done: bool
    interval_s: float
    user: str = ""
    secret: str = ""
    expires_s: float = 0.0


@dataclass(slots=True)
class DeviceLogins:
    """Logins under way, by a secret that their command alone has."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: dict[str, DeviceLogin] = field(default_factory=dict)

    def keep(self, login: DeviceLogin) -> str:
        """Keep one; its secret."""
        secret = secrets.token_urlsafe(32)
        with self.lock:
            while len(self.begun) >= MOST:
                del self.begun[next(iter(self.begun))]
            self.begun[secret] = login
        return secret

    def get(self, secret: str) -> DeviceLogin:
        """The login of that secret; NotFound for one that ended, or was begun elsewhere."""
        with self.lock:
            found = self.begun.get(secret)
        if found is None:
            raise NotFound("no such login is under way", next="vgpumgr login")
        return found

    def end(self, secret: str) -> None:
        """Forget it."""
        with self.lock:
            self.begun.pop(secret, None)


@dataclass(frozen=True, slots=True)
class LoginRoutes:
    """Begin a login, ask about it, end a session. They need no permission: who asks is not known
    yet, or ends what is the asker's own.
    """

    service: Service
    logins: DeviceLogins = field(default_factory=DeviceLogins)

    def begin(self, request: Request) -> BegunLogin:
        """Begin a login at the identity provider."""
        self.service.limits.count_login(address_of(request))
        login = self._provider().begin_device()
        return BegunLogin(
            login=self.logins.keep(login),
            user_code=login.user_code,
            verification_uri=login.verification_uri,
            complete_uri=login.complete_uri,
            interval_s=login.interval_s,
            expires_s=max(0.0, login.expires_at - time.time()),
        )

    def poll(self, asked: LoginPoll, request: Request) -> PolledLogin:
        """Has the user logged in meanwhile?"""
        device, address = self.logins.get(asked.login), address_of(request)
        try:
            principal = self._provider().poll(device)
        except LoginRefused as error:
            self.logins.end(asked.login)
            self.service.refused(Actor(user="", address=address), error)
            self.service.limits.count_login(address)
            raise
        if principal is None:
            return PolledLogin(done=False, interval_s=device.interval_s)
        self.logins.end(asked.login)
        self.service.limits.login_succeeded(address)
        return self._begun(principal, address, device.interval_s)

    def with_password(self, asked: PasswordLogin, request: Request) -> PolledLogin:
        """Log in at the directory."""
        address = address_of(request)
        principal = directory_principal(
            self.service, asked.user, asked.password.get_secret_value(), address
        )
        return self._begun(principal, address, 0.0)

    def _begun(self, principal: Principal, address: str, interval_s: float) -> PolledLogin:
        access = self.service.app.access
        with acting(access.of_principal(principal, address).actor):
            session, secret = access.logins.begin(principal, address)
        return PolledLogin(
            done=True,
            interval_s=interval_s,
            user=principal.user,
            secret=secret,
            expires_s=session.expires_at - session.created_at,
        )

    def end(self, request: Request) -> PolledLogin:
        """End the session whose token is shown."""
        access = self.service.app.access
        who = access.logins.authenticate(shown_secret(request), address_of(request))
        with acting(who.actor):
            self.service.app.writable_ledger.end_login(who.actor.credential, "logged out")
        return PolledLogin(done=True, interval_s=0.0, user=who.principal.user)

    def _provider(self) -> OidcLogin:
        found = self.service.app.access.oidc
        if found is None:
            directory = self.service.app.access.directory is not None
            raise NotFound(
                "no identity provider is set",
                why="the server's settings have no auth.oidc.issuer",
                next="vgpumgr login --user NAME"
                if directory
                else "show an API token: vgpumgr token create",
            )
        return found


def directory_principal(service: Service, user: str, password: str, address: str) -> Principal:
    """Who has that name and password at the directory; a refusal is kept in the trail. Limited by
    address and by user before the directory is asked.
    """
    directory = service.app.access.directory
    if directory is None:
        raise NotFound(
            "no directory is set",
            why="the server's settings have no auth.ldap.url",
            next="vgpumgr login, or show an API token",
        )
    service.limits.count_login(address)
    service.limits.count_password(user)
    try:
        principal = directory.log_in(user, password)
    except LoginRefused as error:
        service.refused(Actor(user="", address=address), error)
        raise
    service.limits.login_succeeded(address, user)
    return principal


def add_login_routes(api: FastAPI, service: Service) -> None:
    """Add them all. They may wait for another server, and do so in threads of their own."""
    routes = LoginRoutes(service)

    async def begin(request: Request) -> BegunLogin:
        return await to_thread.run_sync(routes.begin, request, limiter=service.for_logins)

    async def poll(asked: LoginPoll, request: Request) -> PolledLogin:
        return await to_thread.run_sync(routes.poll, asked, request, limiter=service.for_logins)

    async def with_password(asked: PasswordLogin, request: Request) -> PolledLogin:
        return await to_thread.run_sync(
            routes.with_password, asked, request, limiter=service.for_logins
        )

    handlers: tuple[tuple[str, str, Callable[..., Any], Callable[..., Any]], ...] = (
        ("/logins", "login.begin", begin, routes.begin),
        ("/logins:poll", "login.poll", poll, routes.poll),
        ("/logins:password", "login.password", with_password, routes.with_password),
        ("/logout", "login.end", routes.end, routes.end),
    )
    for path, name, handler, described in handlers:
        api.add_api_route(
            PREFIX + path,
            handler,
            methods=["POST"],
            summary=described.__name__.replace("_", " ").title(),
            description=described.__doc__,
            operation_id=name,
            tags=["login"],
            responses=failures(),
            openapi_extra={"x-permission": ""},
        )
