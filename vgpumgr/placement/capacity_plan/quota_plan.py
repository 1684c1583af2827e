"""The capacity plan: soft quotas by host class and request group, and their penalties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.resources.demand import Demand, demand_of
from vgpumgr.placement.tables.gpu_states import Part

GroupKey = tuple[Hashable, ...]

MOST_GROUPS = 512


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Requests that differ at most in memory: ``count`` of them, of ``memory_mib`` on average."""

    key: GroupKey
    demand: Demand
    count: float
    memory_mib: float


def group_key(demand: Demand) -> GroupKey:
    """Equal for requests that a plan takes for the same: vCPUs, GPU parts, rules about hosts."""
    kinds = tuple((kind.key, kind.count) for kind in demand.kinds)
    places = demand.networks, demand.bridges, demand.sriov, demand.pools, demand.features
    return demand.vcpus, kinds, demand.host_labels, *places


def groups_of(history: Iterable[VmSpec]) -> tuple[RequestGroup, ...]:
    """The commonest groups of a history, the commonest first.

    Requests for named hosts are left out: they have no choice that a plan could steer.
    """
    counts: Counter[GroupKey] = Counter()
    memory: Counter[GroupKey] = Counter()
    first: dict[GroupKey, Demand] = {}
    for request in history:
        demand = demand_of(request, PlacementPolicy.CAPACITY_FIRST, founding=False)
        if demand.hosts:
            continue
        key = group_key(demand)
        counts[key] += 1
        memory[key] += demand.memory_mib
        first.setdefault(key, replace(demand, together_with=(), apart_from=(), name=""))
    return tuple(
        RequestGroup(key, first[key], count, memory[key] / count)
        for key, count in counts.most_common(MOST_GROUPS)
    )


Floats = NDArray[np.float64]


class NoPlan(StrEnum):
    """Why there is no plan."""

    TOO_FEW = "too few requests so far"
    NO_ROOM = "none of the requests fits the fleet"
    NO_SOLVER = "highspy is not installed (extra lp)"
    TOO_LARGE = "its program is too large for this fleet"
    UNSOLVED = "its program was not solved with the effort that it may cost"

    @property
    def is_a_loss(self) -> bool:
        """A plan would do good here; the others leave nothing to plan, or were chosen."""
        return self in {NoPlan.TOO_LARGE, NoPlan.UNSOLVED}


@dataclass(frozen=True, slots=True, eq=False)
class CapacityPlan:
    """``classes`` is the class of each host by name, ``groups`` the number of each group.

    ``quotas`` [classes × groups] is how many requests of a group a class should take from now
    until the fleet is full. ``prices`` are what one part of a VM is worth, in thousandths of the
    whole GPU it lies on. ``fits`` is how many more requests like the history the fleet holds.
    """

    classes: Mapping[str, int]
    groups: Mapping[GroupKey, int]
    quotas: Floats
    prices: tuple[tuple[Part, float], ...]
    fits: float


# All in thousandths of a GPU, the unit of the capacity-first score, to be subtracted from it.


Ints = NDArray[np.int64]

STEEP = 1000.0
"""What it costs to be over by as much again as the quota: a GPU."""

MOST_OVER = 50.0

FREE = -1
"""The group of a type that the plan does not know, and the class of a host that it does not."""


def penalty(quota: Floats, used: Floats) -> Floats:
    """What one more costs (any shape): nothing up to the quota, then by how much it is over.

    ``(used + 1 - quota) / (quota + 1)``: the one beneath keeps quotas below one, where chance
    rules, from being walls.
    """
    over = np.clip((used + 1.0 - quota) / (quota + 1.0), 0.0, MOST_OVER)
    cost: Floats = STEEP * over
    return cost


class QuotaTally:
    """The VMs placed since the plan was adopted, against its quotas.

    ``host_class`` [hosts] is the class of each of ``hosts``, FREE where the plan knows none;
    ``cost`` [classes + 1 × groups + 1] is what one more costs.
    """

    def __init__(self, plan: CapacityPlan, hosts: Sequence[str]) -> None:
        self._groups = plan.groups
        classes, groups = plan.quotas.shape
        # One row and column more: what the plan does not know costs nothing.
        self._quotas = np.full((classes + 1, groups + 1), np.inf)
        self._quotas[:classes, :groups] = plan.quotas
        self._used = np.zeros_like(self._quotas)
        self.cost = np.zeros_like(self._quotas)
        self.cost[:classes, :groups] = penalty(plan.quotas, np.zeros_like(plan.quotas))
        self.host_class: Ints = np.array([plan.classes.get(name, FREE) for name in hosts], int)

    def group(self, key: GroupKey) -> int:
        """The number of a group, FREE where the plan does not know it."""
        return self._groups.get(key, FREE)

    def by_class(self, group: int) -> Floats:
        """[classes + 1] the cost of one more by class; index it with ``host_class``."""
        return self.cost[:, group]

    def count(self, group: int, host: int, change: int = 1) -> bool:
        """Note what was placed (1) or given back (-1); True where that changes any cost."""
        at = self.host_class[host], group
        self._used[at] = max(0.0, self._used[at] + change)
        if np.isinf(self._quotas[at]):
            return False
        cost = float(penalty(self._quotas[at], self._used[at]))
        changed = cost != self.cost[at]
        self.cost[at] = cost
        return bool(changed)
