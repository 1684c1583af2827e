"""What a pool could hold if every VM could be moved at any time for nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.pools.boards import Board, TableBoard, offers_of, starts_of
from vgpumgr.placement.tables.state_space import StateSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EPS = 1e-9


class FreeMigration:
    """Holds how many there are of each part; takes one more wherever a packing may exist.

    ``sets`` are what fills one of ``bins``. The test is the linear relaxation of packing, so it
    errs on the side of yes: a true optimum with free moves accepts no more. Its dual: a price per
    part such that no set is worth more than 1; the parts fit where no prices make them worth
    more than there are bins. All corners of these prices are worked out once.
    """

    def __init__(self, sets: Floats | Ints, bins: int) -> None:
        self.sets = sets
        self.bins = bins
        self._prices = prices(sets)
        self.held = np.zeros(sets.shape[1], np.int64)

    def accept(self, part: int) -> bool:
        """Hold one more, if it fits."""
        self.held[part] += 1
        if (self._prices @ self.held).max() <= self.bins + _EPS:
            return True
        self.held[part] -= 1
        return False

    def leave(self, part: int) -> None:
        """One of them is gone."""
        self.held[part] -= 1


class SameSize:
    """The same where all vGPUs of a GPU are of one size: whole GPUs per size, exactly."""

    def __init__(self, sets: Ints, bins: int) -> None:
        self.sets = sets
        self.bins = bins
        self._most = sets.max(axis=0)
        self.held = np.zeros(sets.shape[1], np.int64)

    def accept(self, part: int) -> bool:
        """Hold one more, if it fits."""
        self.held[part] += 1
        if (-(-self.held // self._most)).sum() <= self.bins:
            return True
        self.held[part] -= 1
        return False

    def leave(self, part: int) -> None:
        """One of them is gone."""
        self.held[part] -= 1


Bound = FreeMigration | SameSize


def free_migration(board: TableBoard, gpus: int) -> Bound:
    """Of GPUs that any listed content may lie on."""
    return FreeMigration(contents(board.space), gpus)


def same_size(board: TableBoard, gpus: int) -> Bound:
    """Of GPUs with vGPUs of one size each."""
    return SameSize(contents(board.space), gpus)


def mixed_size(board: Board, gpus: int) -> Bound:
    """Of GPUs in mixed-size mode, packed as halves.

    No start but the whole GPU's crosses the middle, and both halves are cut alike.
    """
    return FreeMigration(halves(board), 2 * gpus)


def contents(space: StateSpace) -> Ints:
    """What full GPUs hold, as counts by part: the largest such sets only."""
    full = {
        tuple(Counter(step.part for step in leaves)[n] for n in range(len(space.parts)))
        for leaves, takes in zip(space.leaves, space.takes, strict=True)
        if not any(takes)
    }
    return np.array(sorted(full), np.int64)


def prices(sets: Floats | Ints) -> Floats:
    """The corners of {p ≥ 0: set · p ≤ 1 for each set}, by adding one set after the other."""
    count = sets.shape[1]
    most = sets.max(axis=0)
    rows = np.vstack([-np.eye(count), np.diag(most), sets])
    bounds = np.concatenate([np.zeros(count), np.ones(count), np.ones(len(sets))])
    corners = np.array(np.meshgrid(*[[0.0, 1.0 / m] for m in most])).reshape(count, -1).T
    for done in range(2 * count, len(rows)):
        corners = _cut(corners, rows[: done + 1], bounds[: done + 1])
    keep = [
        not (((corners >= c) & (corners != c)).any(1) & (corners >= c).all(1)).any()
        for c in corners
    ]
    return np.asarray(corners[keep])


def _cut(corners: Floats, rows: Floats, bounds: Floats) -> Floats:
    """The corners of what is left when the last row's half-space is taken too."""
    over = corners @ rows[-1] - bounds[-1]
    out, inside = np.flatnonzero(over > _EPS), np.flatnonzero(over < -_EPS)
    if not len(out):
        return corners
    tight = np.abs(corners @ rows[:-1].T - bounds[:-1]) < _EPS
    fresh = []
    for a in out:
        for b in inside:
            common = tight[a] & tight[b]
            # Neighbours: no third corner lies on all that the two have in common.
            if common.sum() >= rows.shape[1] - 1 and tight[:, common].all(axis=1).sum() == 2:
                share = over[a] / (over[a] - over[b])
                fresh.append(corners[a] + share * (corners[b] - corners[a]))
    kept = corners[over <= _EPS]
    found = np.vstack([kept, fresh]) if fresh else kept
    return np.unique(found.round(12), axis=0)


def halves(board: Board) -> Floats:
    """What full halves of a GPU hold, as counts by part, largest such sets only; last a whole."""
    middle = board.supply.units // 2
    starts = [
        [start for start in starts_of(offer) if start < 1 << middle] for offer in offers_of(board)
    ]
    assert not starts[-1] and all(starts[:-1]), "the last part is a whole GPU"
    todo = [(0, (0,) * len(starts))]
    seen = set(todo)
    full = set()
    for mask, counts in todo:
        free = [(part, each) for part, of in enumerate(starts) for each in of if not mask & each]
        for part, start in free:
            more = (*counts[:part], counts[part] + 1, *counts[part + 1 :])
            if (mask | start, more) not in seen:
                seen.add((mask | start, more))
                todo.append((mask | start, more))
        if not free:
            full.add(counts)
    whole = (0,) * (len(starts) - 1) + (0.5,)
    return np.array([*_largest(full), whole], np.float64)


def _largest(sets: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those that no other holds and more."""

    def within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return sorted(each for each in sets if not any(within(each, other) for other in sets))
