"""One request for a page: who asks, what they may, and the answers of endpoints for them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.status import HTTP_400_BAD_REQUEST

from vgpumgr.access.permission import Permission
from vgpumgr.access.roles import PERMISSIONS
from vgpumgr.api.incoming_call import IncomingCall
from vgpumgr.api.parameters import all_parameters
from vgpumgr.api.service import Service
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import UsageError, error_from
from vgpumgr.model.role_binding import ALL_TENANTS, Role


class PageCall:
    """A request of a browser."""

    def __init__(self, service: Service, request: Request) -> None:
        self.service = service
        self.request = request

    @cached_property
    def who(self) -> Established:
        """Who asks; LoginRefused."""
        return self.service.known(self.request)

    @property
    def user(self) -> str:
        """The name of who asks."""
        return self.who.actor.user

    @property
    def is_anonymous(self) -> bool:
        """Do they read at the loopback without a login?"""
        return self.who.actor.method is LoginMethod.LOOPBACK

    @property
    def is_desktop_user(self) -> bool:
        """Do they use desktops, and have nothing to see or do beyond a tenant's user?"""
        grants = self.who.grants
        where = grants.scope(Permission.DESKTOP_CONNECT)
        more = any(not each.permissions <= PERMISSIONS[Role.TENANT_USER] for each in grants.each)
        return bool(where) and not more and grants.scope(Permission.POOL_READ) <= where

    @property
    def roles(self) -> tuple[str, ...]:
        """What they are, for people."""
        return self.who.grants.roles

    def may(self, permission: Permission | str) -> bool:
        """Do they hold the permission in some tenant?"""
        return bool(self.who.grants.scope(Permission(permission)))

    def may_call(self, name: str) -> bool:
        """May they call the endpoint of that name? What is not kept within tenants is for those
        who may see all of them.
        """
        endpoint = ENDPOINTS[name]
        if endpoint.permission is None:
            return not self.is_anonymous
        scope = self.who.grants.scope(endpoint.permission)
        return bool(scope) and (endpoint.scoped or scope == ALL_TENANTS)

    async def read(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the endpoint of that name, a plan for instance; raises what it raises."""
        if not ENDPOINTS[name].changes:
            return await self._incoming(name, asked).read()
        answer = await self.change(name, asked, key=secrets.token_urlsafe(24))
        whole: dict[str, Any] = json.loads(bytes(answer.body))
        if answer.status_code >= HTTP_400_BAD_REQUEST:
            raise error_from(whole)
        return whole

    def read_here(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The same in this thread, of an endpoint that reads the ledger alone."""
        return self._incoming(name, asked).read_here()

    async def change(
        self, name: str, asked: Mapping[str, Any], *, key: str, if_match: str = ""
    ) -> Response:
        """What the endpoint answers over HTTP; the same under the same key."""
        call = self._incoming(name, asked, key=key, if_match=if_match)
        return await call.answer(0.0)

    def tag(self, name: str, asked: Mapping[str, Any]) -> str:
        """The ETag of what the endpoint is about; empty where it has none."""
        return self._incoming(name, asked).tag()

    def _incoming(
        self, name: str, asked: Mapping[str, Any], *, key: str = "", if_match: str = ""
    ) -> IncomingCall:
        return IncomingCall(
            self.service,
            ENDPOINTS[name],
            self.request,
            with_defaults(name, asked),
            key or None,
            if_match=if_match or None,
        )


def with_defaults(name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter of the endpoint as plain values; texts are read as what they stand for.
    UsageError where one is not valid.
    """
    try:
        return all_parameters(ENDPOINTS[name]).model_validate(dict(asked)).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "the form"
        raise UsageError(f"{where}: {first['msg']}") from error
