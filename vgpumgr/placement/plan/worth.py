"""What a GPU in some state is worth: the best that prices can still make of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.plan.flow import Ints, next_of, reachable
from vgpumgr.placement.table.parts import Part
from vgpumgr.placement.table.states import MILLI, NOTHING, StateTable

Floats = NDArray[np.float64]

_MOST_STATES = 200_000


class Worth:
    """By row of ``table``, in thousandths of a whole GPU; worked out when first asked for.

    The worth of a state is the most that the parts it still takes bring together at ``prices``:
    with prices from the plan's program, what the program itself gives for a GPU in that state.
    A part that is placed where it costs more worth than its price is in the way of better ones.
    """

    def __init__(self, prices: Sequence[tuple[Part, float]], table: StateTable) -> None:
        self._table = table
        self._columns = [table.column(part) for part, _ in prices]
        self._prices = np.array([price for _, price in prices], np.float64)
        self._known: dict[int, float] = {NOTHING: 0.0}

    def of(self, rows: Ints) -> Floats:
        """The worth of each of these rows."""
        new = [row for row in np.unique(rows).tolist() if row not in self._known]
        if new:
            self._learn(new)
        return np.array([self._known[row] for row in rows.tolist()])

    def _learn(self, start: list[int]) -> None:
        """Fullest first: what a state becomes is fuller than it is."""
        nodes = reachable(start, self._columns, self._table, _MOST_STATES)
        if nodes is None or not self._columns:
            self._known |= dict.fromkeys(start, 0.0)
            return
        nodes = nodes[np.argsort(self._table.units[nodes], kind="stable")]
        worth = np.zeros(self._table.rows)
        after = next_of(nodes, self._columns, self._table)
        for node, then in zip(nodes.tolist(), after, strict=True):
            bring = np.where(then != NOTHING, self._prices + worth[then], 0.0)
            worth[node] = min(MILLI, float(bring.max()))
        self._known |= zip(nodes.tolist(), worth[nodes].tolist(), strict=True)
