"""Roles that subjects hold in tenants, and the tenants that something may reach."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.errors import UsageError

EVERY_TENANT = "*"
"""What a binding names for all tenants, those of tomorrow included."""

_SUBJECT = re.compile(r"(user|group|local|local-group):[^\s\x00-\x1f\x7f]{1,200}|uid:\d{1,10}")


class Role(StrEnum):
    """What a subject is to a tenant, or to the fleet."""

    VIEWER = "viewer"
    TENANT_USER = "tenant-user"
    TENANT_ADMIN = "tenant-admin"
    OPERATOR = "operator"
    AUDITOR = "auditor"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBinding:
    """A subject holds a role in a tenant, or in all of them (``*``).

    ``subject`` is ``user:NAME`` or ``group:NAME`` of who logged in, ``local:NAME``,
    ``local-group:NAME`` or ``uid:N`` of an account of the controller. ``created_at`` is Unix
    seconds, ``created_by`` the actor.
    """

    subject: str
    role: Role
    tenant: str = EVERY_TENANT
    created_at: float = 0.0
    created_by: str = ""


def checked_subject(text: str) -> str:
    """The subject; UsageError for a text that names none."""
    if not _SUBJECT.fullmatch(text):
        raise UsageError(
            f"{text!r:.80} names no user or group",
            next="user:NAME, group:NAME, or of this machine local:NAME, local-group:NAME, uid:N",
        )
    return text


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenants that something holds for; ``tenants`` is None for all of them."""

    tenants: frozenset[str] | None

    @classmethod
    def of(cls, tenant: str) -> Scope:
        """The scope that a binding's tenant names."""
        return ALL_TENANTS if tenant == EVERY_TENANT else cls(frozenset((tenant,)))

    @property
    def is_all(self) -> bool:
        """Whether it holds everywhere, also for what belongs to no tenant."""
        return self.tenants is None

    def __contains__(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants

    def __bool__(self) -> bool:
        return self.tenants is None or bool(self.tenants)

    def __and__(self, other: Scope) -> Scope:
        if self.tenants is None:
            return other
        return self if other.tenants is None else Scope(self.tenants & other.tenants)

    def __or__(self, other: Scope) -> Scope:
        if self.tenants is None or other.tenants is None:
            return ALL_TENANTS
        return Scope(self.tenants | other.tenants)

    def __le__(self, other: Scope) -> bool:
        if other.tenants is None:
            return True
        return self.tenants is not None and self.tenants <= other.tenants

    def __str__(self) -> str:
        if self.tenants is None:
            return EVERY_TENANT
        return ", ".join(sorted(self.tenants)) or "no tenant"


ALL_TENANTS = Scope(None)
NO_TENANT = Scope(frozenset())
