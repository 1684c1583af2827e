"""The plan's soft quotas beside the matrix: they move with every decision, scores do not.

Hosts of one class lie side by side in the matrix, so a decision takes the best host of each class,
adds what the class costs, and compares classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.matrix.wants import Ints
from vgpumgr.placement.plan import Plan, Tally


class Quotas:
    """One plan over hosts in the matrix's order, and how much of it is used up."""

    def __init__(self, plan: Plan, hosts: list[str]) -> None:
        self._tally = Tally(plan, hosts)
        classes = self._tally.host_class
        self._starts: Ints = np.flatnonzero(np.diff(classes, prepend=classes.min(initial=0) - 1))
        self._ends = np.append(self._starts[1:], len(hosts))
        self._classes = classes[self._starts]
        self.group = self._tally.group

    def count(self, group: int, host: int, change: int) -> None:
        """Note that a VM was placed on a host (by its number), or left it."""
        self._tally.count(group, host, change)

    def best(self, row: NDArray[Any], group: int, rank: Ints) -> int:
        """The best host for a row of the matrix; ``rank`` breaks ties between classes."""
        best = np.maximum.reduceat(row, self._starts)
        worth = best - self._tally.by_class(group)[self._classes]
        tied = np.flatnonzero(worth == worth.max()).tolist()
        return min((self._first(row, each) for each in tied), key=lambda host: int(rank[host]))

    def _first(self, row: NDArray[Any], segment: int) -> int:
        start, end = self._starts[segment], self._ends[segment]
        return int(start) + int(row[start:end].argmax())
