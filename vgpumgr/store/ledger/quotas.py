"""Quotas in the ledger; each method is one transaction."""

from __future__ import annotations

from vgpumgr.model.quota import Quota
from vgpumgr.store import quotas
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried


class Quotas(Session):
    """What tenants may hold."""

    def quotas(self) -> tuple[Quota, ...]:
        """Every tenant's quota, by tenant."""
        with self._database.read() as connection:
            return quotas.list_quotas(connection)

    @retried
    def set_quota(self, quota: Quota) -> None:
        """Write a tenant's quota over the one it had."""
        with self._database.write() as connection:
            quotas.set_quota(connection, quota, self._stamp())

    @retried
    def delete_quota(self, tenant: str) -> None:
        """Limit a tenant no more; NotFound for one without a quota."""
        with self._database.write() as connection:
            quotas.delete_quota(connection, tenant, self._stamp())
