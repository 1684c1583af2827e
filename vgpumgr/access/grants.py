"""The decision: in which tenants a principal holds a permission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vgpumgr.access.permission import FLEET_WIDE, Permission
from vgpumgr.access.principal import Principal
from vgpumgr.access.roles import PERMISSIONS
from vgpumgr.model.credential import ApiToken
from vgpumgr.model.errors import AccessRefused
from vgpumgr.model.role_binding import (
    ALL_TENANTS,
    EVERY_TENANT,
    NO_TENANT,
    Role,
    RoleBinding,
    Scope,
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions that hold in one scope."""

    permissions: frozenset[Permission]
    scope: Scope


@dataclass(frozen=True, slots=True)
class Grants:
    """All that somebody may do. ``user`` and ``roles`` are for the texts of refusals."""

    each: tuple[Grant, ...]
    user: str = ""
    roles: tuple[str, ...] = ()

    @classmethod
    def of(cls, principal: Principal, bindings: Iterable[RoleBinding]) -> Grants:
        """What the bindings of this principal give; others are passed over."""
        subjects = principal.subjects
        mine = [each for each in bindings if each.subject in subjects]
        if principal.owns_ledger:
            mine.append(RoleBinding(subject=principal.subject, role=Role.ADMIN))
        return cls(
            _joined(Grant(given(each.role, each.tenant), Scope.of(each.tenant)) for each in mine),
            principal.user,
            tuple(dict.fromkeys(_role_text(each.role, each.tenant) for each in mine)),
        )

    def within(self, token: ApiToken) -> Grants:
        """What a token of this owner may do: never more than the owner, nor than its own role."""
        own, where = given(token.role, token.tenant), Scope.of(token.tenant)
        both = (Grant(each.permissions & own, each.scope & where) for each in self.each)
        held = tuple(each for each in both if each.permissions and each.scope)
        role = _role_text(token.role, token.tenant)
        return Grants(held, f"{self.user} by token {token.name}", (role,))

    def scope(self, permission: Permission) -> Scope:
        """The tenants in which the permission is held; none of them: it is refused."""
        found = NO_TENANT
        for each in self.each:
            if permission in each.permissions:
                found = found | each.scope if found.tenants else each.scope
                if found.tenants is None:
                    return ALL_TENANTS
        return found

    def require(self, permission: Permission) -> Scope:
        """The same; AccessRefused where it is held nowhere."""
        found = self.scope(permission)
        if not found:
            raise refusal(self, permission)
        return found

    def require_in(self, permission: Permission, tenant: str) -> None:
        """AccessRefused unless the permission is held in that tenant. For what the asker named; of
        what was looked up nothing may be said: it is not found.
        """
        if tenant not in self.require(permission):
            raise refusal(self, permission, tenant)

    def allows(self, role: Role, tenant: str) -> bool:
        """Whether all that the role gives there is held: a role is given by who has all of it."""
        where = Scope.of(tenant)
        return all(where <= self.scope(each) for each in given(role, tenant))

    def require_to_bind(self, role: Role, tenant: str) -> None:
        """AccessRefused unless this role may be given, or taken, in that tenant."""
        self.require_in(Permission.ACCESS_WRITE, tenant)
        if not self.allows(role, tenant):
            raise AccessRefused(
                f"{self.user or 'you'} may not grant or revoke {_role_text(role, tenant)}",
                why="it gives more than you have yourself",
                next="ask an administrator",
            )

    def table(self) -> Iterator[tuple[Permission, Scope]]:
        """Every permission that is held, with its scope."""
        for each in Permission:
            if scope := self.scope(each):
                yield each, scope


def _joined(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """The same with one grant for each set of permissions: the same role in many tenants is one."""
    found: dict[frozenset[Permission], Scope] = {}
    for each in grants:
        found[each.permissions] = found.get(each.permissions, NO_TENANT) | each.scope
    return tuple(Grant(permissions, scope) for permissions, scope in found.items())


def given(role: Role, tenant: str) -> frozenset[Permission]:
    """What a role gives in a tenant; fleet-wide permissions only in all of them."""
    permissions = PERMISSIONS[role]
    return permissions if tenant == EVERY_TENANT else permissions - FLEET_WIDE


def may_use_desktop(grants: Grants, principal: Principal, user: str, tenant: str) -> bool:
    """May the principal have a connection to that user's desktop in a pool of that tenant? To the
    own one with ``desktop:connect``, to another's with ``pool:assign`` and ``vm:console``.
    """
    if user == principal.user and tenant in grants.scope(Permission.DESKTOP_CONNECT):
        return True
    others = grants.scope(Permission.POOL_ASSIGN) & grants.scope(Permission.VM_CONSOLE)
    return tenant in others


def refusal(grants: Grants, permission: Permission, tenant: str = "") -> AccessRefused:
    """The error of who lacks a permission; it names nothing but what the asker knows."""
    who, where = grants.user or "you", f" in tenant {tenant}" if tenant else ""
    held = ", ".join(grants.roles)
    giving = [role.value for role in Role if permission in given(role, tenant or EVERY_TENANT)]
    return AccessRefused(
        f"{who} may not: {permission} is needed{where}",
        why=f"you have {held}" if held else "you have no role",
        next=f"vgpumgr auth whoami; an administrator can grant {' or '.join(giving)}",
    )


def _role_text(role: Role, tenant: str) -> str:
    return role.value if tenant == EVERY_TENANT else f"{role.value} in {tenant}"
