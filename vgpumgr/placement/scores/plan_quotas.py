"""The quotas of a plan where they meet the score matrix: the best host of a row by both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, QuotaTally
from vgpumgr.placement.scores.compiled import address, library
from vgpumgr.placement.tables.request_types import Ints

# Hosts of one class lie side by side in the matrix, so a decision takes the best host of each
# class, adds what the class costs, and compares classes.


class PlanQuotas:
    """The quotas of one plan over hosts in the matrix's order, and how much of them is used up."""

    def __init__(self, plan: CapacityPlan, hosts: list[str]) -> None:
        self._tally = QuotaTally(plan, hosts)
        classes = self._tally.host_class
        self._starts: Ints = np.flatnonzero(np.diff(classes, prepend=classes.min(initial=0) - 1))
        self._ends = np.append(self._starts[1:], len(hosts))
        self._classes = classes[self._starts]
        count, self._stride = self._tally.cost.shape
        self._numbers = np.ascontiguousarray(self._classes % count)
        self._places = address(self._starts), len(self._starts), address(self._tally.cost)
        self.group = self._tally.group

    def count(self, group: int, host: int, change: int) -> None:
        """Note that a VM was placed on a host (by its number), or left it."""
        self._tally.count(group, host, change)

    def best(self, row: NDArray[Any], group: int, rank: Ints) -> int:
        """The best host for a row of the matrix; ``rank`` breaks ties between classes."""
        if (compiled := library()) is not None:
            starts, count, costs = self._places
            at: int = compiled.best_of_classes(
                address(row), len(row), starts, count, costs + 8 * (group % self._stride),
                self._stride, address(self._numbers), address(rank),
            )  # fmt: skip
            return max(at, 0)
        best = np.maximum.reduceat(row, self._starts)
        worth = best - self._tally.by_class(group)[self._classes]
        tied = np.flatnonzero(worth == worth.max()).tolist()
        return min((self._first(row, each) for each in tied), key=lambda host: int(rank[host]))

    def _first(self, row: NDArray[Any], segment: int) -> int:
        start, end = self._starts[segment], self._ends[segment]
        return int(start) + int(row[start:end].argmax())
