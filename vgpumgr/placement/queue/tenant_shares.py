"""Tenant quotas and dominant shares, and the part of the fleet that long jobs may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vgpumgr.model.licence import Licence, SeatShortage, seats_of, shortages
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueRules
from vgpumgr.model.quota import Amount, Excess, Quota, storage_bytes
from vgpumgr.model.supply import Fleet, GpuSupply, Offer
from vgpumgr.model.vm import Terms
from vgpumgr.placement.resources.demand import Demand, PartKind, matching


def amount_of(placed: Placed) -> Amount:
    """What a VM holds where it was placed, in the terms of quotas."""
    profiles = Counter(part.offer.profile for part in placed.assignments)
    return Amount(
        gpu_memory_mib=sum(part.offer.memory_mib for part in placed.assignments),
        gpus=len(placed.assignments),
        vcpus=placed.request.vcpus,
        vms=1,
        profiles=dict(profiles),
        seats=seats_of(profiles),
        storage_bytes=storage_bytes(placed.request.disks, {}),
    )


_CAPACITY = 1e-6
"""A VM that takes next to nothing is not worth more than a million others."""


class FleetShares:
    """Shares of amounts in a whole fleet, whatever runs on it."""

    def __init__(self, fleet: Fleet) -> None:
        gpus = [gpu for host in fleet.hosts for gpu in host.gpus]
        self._boards = list({(gpu.model, gpu.offers): gpu for gpu in gpus}.values())
        self.gpu_memory_mib = sum(map(_memory_mib, gpus))
        self.vcpus = sum(host.vcpus or host.free_vcpus for host in fleet.hosts)
        self._known: dict[Demand, Amount] = {}

    def least(self, demand: Demand) -> Amount:
        """What a VM takes at least, wherever it goes: for each part the smallest offer that answers
        it.
        """
        known = self._known.get(demand)
        if known is None:
            offers = [(kind, self._smallest(kind)) for kind in demand.kinds]
            known = self._known[demand] = Amount(
                gpu_memory_mib=sum(k.count * o.memory_mib for k, o in offers if o),
                gpus=demand.parts,
                vcpus=demand.vcpus,
                vms=1,
                profiles={k.profile: k.count for k in demand.kinds if k.profile},
                seats=seats_of(k.profile for k in demand.kinds if k.profile),
            )
        return known

    def share(self, amount: Amount) -> float:
        """The dominant share: the larger of the shares of the fleet's GPU memory and vCPUs."""
        gpu = amount.gpu_memory_mib / self.gpu_memory_mib if self.gpu_memory_mib else 0.0
        cpu = amount.vcpus / self.vcpus if self.vcpus else 0.0
        return max(gpu, cpu, _CAPACITY)

    def _smallest(self, kind: PartKind) -> Offer | None:
        found = (offer for gpu in self._boards for offer in _answers(gpu, kind))
        return min(found, key=lambda offer: offer.memory_mib, default=None)


def _answers(gpu: GpuSupply, kind: PartKind) -> Iterable[Offer]:
    return matching(gpu.offers, kind) if kind.allows(gpu.model) else ()


def _memory_mib(gpu: GpuSupply) -> int:
    """The memory of a GPU by its largest profile."""
    return max((offer.memory_mib for offer in gpu.offers), default=0)


_NOTHING = Amount()


class TenantShares:
    """The quotas of tenants, the licence seats of all, and what counts against them; without a
    quota, and of editions that are not declared, there are no limits.
    """

    def __init__(
        self,
        quotas: Sequence[Quota],
        held: Mapping[str, Amount],
        fleet_shares: FleetShares,
        licences: Sequence[Licence] = (),
    ) -> None:
        self._licences = tuple(licences)
        self._quotas = {quota.tenant: quota for quota in quotas}
        self._held = dict(held)
        self._fleet_shares = fleet_shares

    def take(self, tenant: str, amount: Amount) -> None:
        """It holds so much more."""
        self._held[tenant] = self.held(tenant) + amount

    def give(self, tenant: str, amount: Amount) -> None:
        """It holds so much less."""
        self._held[tenant] = self.held(tenant) - amount

    def held(self, tenant: str) -> Amount:
        """What the tenant holds now."""
        return self._held.get(tenant, _NOTHING)

    def excess(self, tenant: str, asked: Amount) -> tuple[Excess, ...]:
        """The limits that it would exceed with so much more."""
        quota = self._quotas.get(tenant)
        return quota.exceeded_by(self.held(tenant), asked) if quota else ()

    def shortages(self, asked: Amount) -> tuple[SeatShortage, ...]:
        """The editions of which too few seats would be left."""
        if not self._licences or not asked.seats:
            return ()
        used = Counter[str]()
        for each in self._held.values():
            used.update(each.seats)
        return tuple(shortages(self._licences, used, asked.seats))

    def beyond(self, tenant: str, asked: Amount) -> tuple[Excess, ...]:
        """The limits that this alone exceeds, though the tenant held nothing."""
        quota = self._quotas.get(tenant)
        return quota.exceeded_by(_NOTHING, asked) if quota else ()

    def share(self, tenant: str) -> float:
        """The larger of its shares of GPU memory and vCPUs, by its weight; the least is next."""
        quota = self._quotas.get(tenant)
        return self._fleet_shares.share(self.held(tenant)) / (quota.weight if quota else 1.0)

    def unclaimed(self) -> dict[str, dict[str, int]]:
        """By tenant and profile, the reserved parts that it does not hold yet."""
        found = {}
        for tenant, quota in self._quotas.items():
            held = self.held(tenant).profiles
            left = {name: count - held.get(name, 0) for name, count in quota.reserved.items()}
            if more := {name: count for name, count in left.items() if count > 0}:
                found[tenant] = more
        return found


class JobClasses:
    """How much of the fleet long work holds."""

    def __init__(self, rules: QueueRules, fleet_shares: FleetShares) -> None:
        self._rules, self._fleet_shares = rules, fleet_shares
        self._long = Amount()

    def is_long(self, terms: Terms) -> bool:
        """Whether the VM runs longer than short work, or for a time that is not known."""
        return terms.runtime_s is None or terms.runtime_s > self._rules.short_s

    def take(self, terms: Terms, amount: Amount) -> None:
        """It runs."""
        if self._rules.kept_for_short and self.is_long(terms):
            self._long += amount

    def give(self, terms: Terms, amount: Amount) -> None:
        """It runs no more."""
        if self._rules.kept_for_short and self.is_long(terms):
            self._long -= amount

    def allows(self, terms: Terms, amount: Amount) -> bool:
        """Whether the VM may start; the only long VM always may."""
        if not self._rules.kept_for_short or not self.is_long(terms) or not self._long.vms:
            return True
        return self._fleet_shares.share(self._long + amount) <= 1 - self._rules.kept_for_short
