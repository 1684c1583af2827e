"""Transitions between GPU states, and the worth of a state by the capacity plan's prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.tables.gpu_states import MILLI, NOTHING, Part, StateTable

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TransitionGraph:
    """``nodes`` are rows of the table. Arc n leads from node ``tail[n]`` to node ``head[n]``.

    ``family[n]`` is what it takes: ``family_of[column]``, -1 for a part that no state here takes.
    Parts that lead to the same states everywhere (a size with and without a model named) are one
    family.
    """

    nodes: Ints
    tail: Ints
    head: Ints
    family: Ints
    family_of: Ints
    families: int


def flow(
    start: Sequence[int], columns: Sequence[int], table: StateTable, most: int
) -> TransitionGraph | None:
    """Everything that GPUs in these states can become; None where that is over ``most`` arcs."""
    nodes = reachable(start, columns, table, most)
    if nodes is None:
        return None
    if not len(nodes) or not len(columns):
        return _nothing(nodes, len(columns))
    after = next_of(nodes, columns, table)
    distinct, family_of = np.unique(after, axis=1, return_inverse=True)
    number = np.full(distinct.shape[1], -1)
    used = np.flatnonzero((distinct != NOTHING).any(axis=0))
    number[used] = np.arange(len(used))
    tail, family = np.nonzero(distinct[:, used] != NOTHING)
    if len(tail) > most:
        return None
    head = np.searchsorted(nodes, distinct[:, used][tail, family])
    of_column = number[family_of.ravel()]
    return TransitionGraph(nodes, tail, head, family, of_column, len(used))


def reachable(
    start: Sequence[int], columns: Sequence[int], table: StateTable, most: int
) -> Ints | None:
    """The rows to which taking parts leads, those of ``start`` too, in order; None: too many."""
    known = new = np.unique(np.array(start, np.int64))
    while len(new):
        found = np.unique(next_of(new, columns, table))
        new = np.setdiff1d(found[found != NOTHING], known)
        known = np.union1d(known, new)
        if len(known) > most:
            return None
    return known


def next_of(rows: Ints, columns: Sequence[int], table: StateTable) -> Ints:
    """[rows × columns] the row with one more of each part; NOTHING where it has no room."""
    table.open_rows(rows.tolist())
    at = np.ix_(rows, np.array(columns, np.int64))
    found: Ints = np.where(table.room[at] > 0, table.after[at], NOTHING).astype(np.int64)
    return found


def _nothing(nodes: Ints, columns: int) -> TransitionGraph:
    none = np.zeros(0, np.int64)
    return TransitionGraph(nodes, none, none, none, np.full(columns, -1), 0)


Floats = NDArray[np.float64]

_MOST_STATES = 200_000


class StateWorth:
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
