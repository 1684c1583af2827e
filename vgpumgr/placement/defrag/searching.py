"""Whether fewer moves do: choices of clearings, the fewest moves first, learning from failures.

A VM that finds no place is seated earlier the next time, and choices without it are preferred
("squeaky wheel", Joslin and Clements 1999).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from vgpumgr.model.defrag import Move
from vgpumgr.placement.defrag.choosing import lightest
from vgpumgr.placement.defrag.clearing import Clearing, Site
from vgpumgr.placement.defrag.ordering import in_order
from vgpumgr.placement.defrag.settling import Settled, Settling

_TRIES = 30
"""In a row, per number of moves and of those who make way."""

_PASSES = 8
"""Over all numbers of moves: what was learned at one of them helps at the others."""

_SPARE = 2
"""How many at most may make way for others."""


class Search:
    """One goal on one floor. ``effort`` is how many seats may be looked at in all."""

    def __init__(self, settling: Settling, sites: Sequence[Site], gain: int, effort: int) -> None:
        self._settling = settling
        self._sites = sites
        self._gain = gain
        self._effort = effort
        self._grudge: Counter[int] = Counter()
        self._failed: dict[object, Settled] = {}
        self._unmet: defaultdict[Clearing, float] = defaultdict(float)
        self._all = 1e-9 + sum(settling.floor.mib)

    def run(self, least: int, most: int) -> tuple[Move, ...] | None:
        """Moves, at most ``most``; ``least`` is where to begin."""
        found: tuple[Move, ...] | None = None
        for _ in range(_PASSES):
            known = len(self._failed)
            for moves, spare in self._levels(least, most):
                for _ in range(_TRIES if moves <= most else 0):
                    if self._settling.seats.looks > self._effort:
                        return found
                    better = self._try(moves - spare, spare)
                    if better is not None and len(better) <= most:
                        found, most = better, len(better) - 1
                        break
            if len(self._failed) == known:
                break  # nothing was tried that had not been
        return found

    def _levels(self, least: int, most: int) -> Iterator[tuple[int, int]]:
        """Moves in all, and how many of them are of VMs that make way."""
        for moves in range(least, most + 1):
            for spare in range(min(_SPARE, moves - least) + 1):
                yield moves, spare

    def _try(self, leaving: int, spare: int) -> tuple[Move, ...] | None:
        chosen = lightest(self._sites, self._gain, leaving, self._weight)
        if chosen is None:
            return None
        order = sorted({number for each in chosen for number in each.leaving}, key=self._order)
        tried = tuple(each.gpus for each in chosen), tuple(order), spare
        settled = self._failed.get(tried)
        if settled is not None:
            for each in chosen:
                self._unmet[each] += 1 / len(chosen)  # look elsewhere
        else:
            settled = self._settling.settle(chosen, order, spare)
            if settled.complete:
                moves = in_order(self._settling.floor, settled.places)
                if moves is not None:
                    return moves
            self._failed[tried] = settled
        self._learn(chosen, settled)
        return None

    def _order(self, number: int) -> tuple[float, ...]:
        return -self._grudge[number], *self._settling.floor.largest_first(number)

    def _weight(self, each: Clearing) -> float:
        """Grudges first; where there are none, what is carried over."""
        carried = sum(self._settling.floor.mib[number] for number in each.leaving)
        grudge = sum(self._grudge[number] for number in each.leaving)
        return carried / self._all + grudge + self._unmet[each]

    def _learn(self, chosen: Sequence[Clearing], settled: Settled) -> None:
        self._grudge.update(settled.homeless)
        if settled.complete:  # but nobody could go first
            self._grudge.update(settled.places.keys())
        for each in settled.unmet:
            self._unmet[each] += 1
        # An empty GPU had perhaps better been left to the homeless.
        empty = [each for each in chosen if not each.leaving] if settled.homeless else []
        for each in empty:
            self._unmet[each] += 1 / len(empty)
