"""What the ledger knows of tenants' quotas."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.quota import Quota


class Quotas(Protocol):
    """What tenants may hold: every ``reserve`` is held to it, whoever planned it."""

    def quotas(self) -> tuple[Quota, ...]:
        """Every tenant's quota, by tenant."""

    def set_quota(self, quota: Quota) -> None:
        """Write a tenant's quota over the one it had. What is held beyond it stays."""

    def delete_quota(self, tenant: str) -> None:
        """Limit a tenant no more; NotFound for one without a quota."""
