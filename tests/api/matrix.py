"""Every route by every role in the own tenant, in another, and in all, with good and bad logins.

The routes, logins, grants and problems are the API's; what the endpoints do is left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from typing_extensions import TypedDict

from tests.api.inside import Inside
from tests.api.needed import FOR_ALL_TENANTS, may, permissions
from tests.ledgers import new_ledger
from vgpumgr.access.permission import Permission
from vgpumgr.api import application, incoming_call, worker
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import AnyEndpoint, Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import NotFound
from vgpumgr.model.role_binding import EVERY_TENANT, Role

OWN, FOREIGN = "blue", "red"
PLACES = (OWN, FOREIGN, EVERY_TENANT)
LOGINS = ("good", "expired", "revoked", "role lost", "wrong", "none")
EVENTS = "event.stream"
ROUTES = {
    EVENTS: (HttpMethod.GET, "/events", Permission.AUDIT_READ),
    "upload.write": (HttpMethod.PATCH, "/uploads/it", Permission.IMAGE_WRITE),
    "upload.offset": ("HEAD", "/uploads/it", Permission.IMAGE_WRITE),
}
"""Routes that are no endpoints. There is no upload; so who may send one is answered 404."""


class Empty(TypedDict):
    """An answer."""

    name: str
    done: bool


@dataclass(frozen=True, slots=True)
class Case:
    """One request, and the status that it is to have."""

    endpoint: str
    role: Role
    place: str
    login: str

    @property
    def status(self) -> int:
        """What the access tables say; what is asked for is a thing of the tenant ``OWN``."""
        if self.login not in {"good", "role lost"}:
            return 401
        route = ROUTES.get(self.endpoint)
        needed = permissions()[self.endpoint] if route is None else route[2]
        if needed is None:
            return 404
        in_all = self.place == EVERY_TENANT
        if self.login == "role lost" or not may(self.role, needed, in_all=in_all):
            return 403
        if not in_all and self.endpoint in FOR_ALL_TENANTS:
            return 403
        if self.endpoint in ROUTES:
            return 200 if self.endpoint == EVENTS else 404
        return 404 if self.place == FOREIGN else 200


def cases() -> list[Case]:
    """All of them."""
    return [
        Case(name, role, place, login)
        for name in (*ENDPOINTS, *ROUTES)
        for role in Role
        for place in PLACES
        for login in LOGINS
        if (login not in {"wrong", "none"} or role is Role.ADMIN)
    ]


def _look(context: CallContext, _: Any) -> Result[Any]:
    """What is asked for is a thing of the tenant ``OWN``."""
    if OWN not in context.scope:
        raise NotFound("it is not there")
    return Result(answer={"name": "it", "done": True})


def _idle(endpoint: AnyEndpoint) -> AnyEndpoint:
    """The endpoint, which needs what it needs, and does nothing."""
    names = re.findall(r"{(\w+)}", endpoint.path)
    asks = dataclasses.make_dataclass(
        "Asked", [(each, str) for each in names], frozen=True, kw_only=True
    )
    return replace(
        endpoint, asks=asks, answers=Empty, work=_look, runs=Runs.LEDGER, kind="It", personal=True
    )


@contextmanager
def idle_api(folder: Path) -> Iterator[Inside]:
    """The API whose endpoints do nothing."""
    new_ledger(folder / "ledger.db")
    idle = {name: _idle(each) for name, each in ENDPOINTS.items()}
    with ExitStack() as stack:
        for room in (application, worker):
            stack.enter_context(mock.patch.object(room, "ENDPOINTS", idle))
        stack.enter_context(mock.patch.object(incoming_call, "show_operation", _look))
        inside = Inside(folder, folder / "ledger.db")
        try:
            yield inside
        finally:
            inside.close()


class Asker:
    """Asks cases, with tokens made once."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._secrets: dict[tuple[Role, str, str], str] = {}

    def status(self, case: Case) -> int:
        """What the API answers to a case."""
        endpoint: Endpoint[Any, Any] | None = ENDPOINTS.get(case.endpoint)
        if endpoint is None:
            method, path, _ = ROUTES[case.endpoint]
        else:
            method, path = endpoint.method, re.sub(r"{\w+}", "it", endpoint.path)
        body = {} if method is not HttpMethod.GET else None
        return self._inside.ask(method, f"/v1{path}", self._secret(case), body).status

    def _secret(self, case: Case) -> str:
        if case.login == "none":
            return ""
        if case.login == "wrong":
            return "vgm_" + "A" * 43
        key = (case.role, case.place, case.login)
        if key not in self._secrets:
            self._secrets[key] = self._made(case)
        return self._secrets[key]

    def _made(self, case: Case) -> str:
        inside, user = self._inside, f"{case.role}-in-{case.place}".replace("*", "all")
        if case.login == "role lost":
            user = f"{user}-no-more"
        else:
            inside.bind(user, case.role, case.place)
        expires_s = -1.0 if case.login == "expired" else 3600.0
        secret = inside.token(user, case.role, case.place, expires_s=expires_s)
        if case.login == "revoked":
            inside.revoke_last()
        return secret


def wrong(asker: Asker, some: list[Case]) -> list[str]:
    """The cases whose status is another one."""
    told = []
    for each in some:
        found = asker.status(each)
        if found != each.status:
            told.append(f"{each}: {found}, not {each.status}")
    return told
