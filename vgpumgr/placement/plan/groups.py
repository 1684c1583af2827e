"""Groups of requests: what a plan counts as one and the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand, demand_of

GroupKey = tuple[Hashable, ...]

MOST_GROUPS = 512


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that differ at most in memory: ``count`` of them, of ``memory_mib`` on average."""

    key: GroupKey
    demand: Demand
    count: int
    memory_mib: float


def group_key(demand: Demand) -> GroupKey:
    """Equal for requests that a plan takes for the same: vCPUs, GPU parts, wishes as to hosts."""
    kinds = tuple((kind.key, kind.count) for kind in demand.kinds)
    wishes = demand.host_labels, demand.networks, demand.bridges, demand.pools
    return demand.vcpus, kinds, *wishes


def groups_of(history: Iterable[VmSpec]) -> tuple[Group, ...]:
    """The commonest groups of a history, the commonest first.

    Requests for named hosts are left out: they have no choice that a plan could steer.
    """
    counts: Counter[GroupKey] = Counter()
    memory: Counter[GroupKey] = Counter()
    first: dict[GroupKey, Demand] = {}
    for request in history:
        demand = demand_of(request, PlacementPolicy.LEAST_FRAGMENTATION, founding=False)
        if demand.hosts:
            continue
        key = group_key(demand)
        counts[key] += 1
        memory[key] += demand.memory_mib
        first.setdefault(key, replace(demand, together_with=(), apart_from=(), name=""))
    return tuple(
        Group(key, first[key], count, memory[key] / count)
        for key, count in counts.most_common(MOST_GROUPS)
    )
