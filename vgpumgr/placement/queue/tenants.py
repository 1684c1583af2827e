"""What tenants hold, what they may hold, and whose turn it is among equals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.model.quota import Amount, Excess, Quota
from vgpumgr.placement.queue.sizes import Sizes

_NOTHING = Amount()


class Tenants:
    """Their quotas, and what counts against them; a tenant without a quota has no limits."""

    def __init__(self, quotas: Sequence[Quota], held: Mapping[str, Amount], sizes: Sizes) -> None:
        self._quotas = {quota.tenant: quota for quota in quotas}
        self._held = dict(held)
        self._sizes = sizes

    def take(self, tenant: str, amount: Amount) -> None:
        """It holds so much more."""
        self._held[tenant] = self.held(tenant) + amount

    def give(self, tenant: str, amount: Amount) -> None:
        """It holds so much less."""
        self._held[tenant] = self.held(tenant) - amount

    def held(self, tenant: str) -> Amount:
        """What it holds now."""
        return self._held.get(tenant, _NOTHING)

    def excess(self, tenant: str, asked: Amount) -> tuple[Excess, ...]:
        """The limits that it would exceed with so much more."""
        quota = self._quotas.get(tenant)
        return quota.exceeded_by(self.held(tenant), asked) if quota else ()

    def beyond(self, tenant: str, asked: Amount) -> tuple[Excess, ...]:
        """The limits that this alone exceeds, though the tenant held nothing."""
        quota = self._quotas.get(tenant)
        return quota.exceeded_by(_NOTHING, asked) if quota else ()

    def share(self, tenant: str) -> float:
        """The larger of its shares of GPU memory and vCPUs, by its weight; the least is next."""
        quota = self._quotas.get(tenant)
        return self._sizes.share(self.held(tenant)) / (quota.weight if quota else 1.0)

    def unclaimed(self) -> dict[str, dict[str, int]]:
        """By tenant and profile, the reserved parts that it does not hold yet."""
        found = {}
        for tenant, quota in self._quotas.items():
            held = self.held(tenant).profiles
            left = {name: count - held.get(name, 0) for name, count in quota.reserved.items()}
            if more := {name: count for name, count in left.items() if count > 0}:
                found[tenant] = more
        return found
