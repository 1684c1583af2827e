"""Logins of the command line at the identity provider: a code that is typed in a browser."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from vgpumgr.api.authentication import address_of, shown_secret
from vgpumgr.api.incoming_call import PREFIX
from vgpumgr.api.problems import failures
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.errors import LoginRefused, NotFound

if TYPE_CHECKING:
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
        access = self.service.app.access
        with acting(access.of_principal(principal, address).actor):
            session, secret = access.logins.begin(principal, address)
        return PolledLogin(
            done=True,
            interval_s=device.interval_s,
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
            raise NotFound(
                "no identity provider is set",
                why="the server's settings have no auth.oidc.issuer",
                next="show an API token: vgpumgr token create",
            )
        return found


def add_login_routes(api: FastAPI, service: Service) -> None:
    """Add them all."""
    routes = LoginRoutes(service)
    for path, name, handler in (
        ("/logins", "login.begin", routes.begin),
        ("/logins:poll", "login.poll", routes.poll),
        ("/logout", "login.end", routes.end),
    ):
        api.add_api_route(
            PREFIX + path,
            handler,
            methods=["POST"],
            operation_id=name,
            tags=["login"],
            responses=failures(),
            openapi_extra={"x-permission": ""},
        )
