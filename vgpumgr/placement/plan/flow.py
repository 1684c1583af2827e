"""What GPUs can become: states as nodes, and an arc for each part that a state takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.table.states import NOTHING, StateTable

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Flow:
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


def flow(start: Sequence[int], columns: Sequence[int], table: StateTable, most: int) -> Flow | None:
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
    return Flow(nodes, tail, head, family, of_column, len(used))


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


def _nothing(nodes: Ints, columns: int) -> Flow:
    none = np.zeros(0, np.int64)
    return Flow(nodes, none, none, none, np.full(columns, -1), 0)
