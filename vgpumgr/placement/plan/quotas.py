"""The quota term: what it costs to give a class of hosts more of a group than is planned.

All in thousandths of a GPU, the unit of the least-fragmentation score, to be subtracted from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.plan.groups import GroupKey
from vgpumgr.placement.plan.plan import Plan

Floats = NDArray[np.float64]
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


class Tally:
    """What was placed since the plan was adopted, against its quotas.

    ``host_class`` [hosts] is the class of each of ``hosts``, FREE where the plan knows none.
    """

    def __init__(self, plan: Plan, hosts: Sequence[str]) -> None:
        self._groups = plan.groups
        classes, groups = plan.quotas.shape
        # One row and column more: what the plan does not know costs nothing.
        self._quotas = np.full((classes + 1, groups + 1), np.inf)
        self._quotas[:classes, :groups] = plan.quotas
        self._used = np.zeros_like(self._quotas)
        self._cost = np.zeros_like(self._quotas)
        self._cost[:classes, :groups] = penalty(plan.quotas, np.zeros_like(plan.quotas))
        self.host_class: Ints = np.array([plan.classes.get(name, FREE) for name in hosts], int)

    def group(self, key: GroupKey) -> int:
        """The number of a group, FREE where the plan does not know it."""
        return self._groups.get(key, FREE)

    def by_class(self, group: int) -> Floats:
        """[classes + 1] the cost of one more by class; index it with ``host_class``."""
        return self._cost[:, group]

    def by_group(self, host: int, groups: Ints) -> Floats:
        """The cost on one host, for types of these groups."""
        row: Floats = self._cost[self.host_class[host]][groups]
        return row

    def count(self, group: int, host: int, change: int = 1) -> bool:
        """Note what was placed (1) or given back (-1); True where that changes any cost."""
        at = self.host_class[host], group
        self._used[at] = max(0.0, self._used[at] + change)
        if np.isinf(self._quotas[at]):
            return False
        cost = float(penalty(self._quotas[at], self._used[at]))
        changed = cost != self._cost[at]
        self._cost[at] = cost
        return bool(changed)
