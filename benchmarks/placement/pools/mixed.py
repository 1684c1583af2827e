"""Pools of GPUs in mixed-size mode, where a GPU has too many states for a table.

A GPU is a mask of taken slots; a part goes to a start that is free. What a policy thinks of a
mask is worked out when the mask is first met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.placement.pools.boards import Board, Kind, offers_of, starts_of
from benchmarks.placement.pools.simulate import Pool
from vgpumgr.placement.tables.state_space import StateTransition

Ways = tuple[float, int]
"""The best score of a part on a mask, and the slots it then takes; inf, 0 without room."""

Score = Callable[["Masks", int, int], float]
"""Of a mask, and the slots that a part would take of it; lower is better."""


class Masks:
    """The board's starts, and how much of free GPUs a mix cannot use."""

    def __init__(self, board: Board, mix: str) -> None:
        self.starts = [starts_of(offer) for offer in offers_of(board)]
        self.units = board.supply.units
        self._shares = board.shares(mix).tolist()
        self._waste: dict[int, float] = {}

    def free(self, mask: int) -> int:
        """Slots that are free."""
        return self.units - mask.bit_count()

    def waste(self, mask: int) -> float:
        """Free slots that a request drawn from the mix cannot use."""
        if mask not in self._waste:
            closed = sum(
                share
                for share, starts in zip(self._shares, self.starts, strict=True)
                if all(mask & start for start in starts)
            )
            self._waste[mask] = closed * self.free(mask)
        return self._waste[mask]


RULES: dict[str, Score] = {
    "first-fit": lambda *_: 0.0,
    "breadth-first": lambda masks, mask, _: -masks.free(mask),
    "depth-first": lambda masks, mask, _: masks.free(mask),
    "fgd-mix": lambda masks, mask, slots: masks.waste(mask | slots) - masks.waste(mask),
}


@dataclass(frozen=True, slots=True)
class ByMask:
    """One of ``RULES``; equal starts go in the driver's order, equal GPUs in the pool's."""

    rule: str

    def pool(self, board: Kind, mix: str, gpus: int) -> Pool:
        """The empty pool."""
        return MaskPool(Masks(board(), mix), RULES[self.rule], gpus)


class MaskPool:
    """Goes by a score: one per part and GPU, worked out anew for the GPU that changed."""

    def __init__(self, masks: Masks, score: Score, gpus: int) -> None:
        self._masks = masks
        self._score = score
        self._parts = range(len(masks.starts))
        self._taken = [0] * gpus
        self._held: list[dict[int, StateTransition]] = [{} for _ in range(gpus)]
        self._where: dict[int, int] = {}
        self._known: dict[int, tuple[Ways, ...]] = {}
        self._scores = np.empty((len(masks.starts), gpus))
        self.moved: list[int] = []
        for gpu in range(gpus):
            self._change(gpu, 0)

    def accept(self, vm: int, part: int) -> bool:
        """See ``Pool``."""
        gpu = int(self._scores[part].argmin())
        if self._scores[part, gpu] == np.inf:
            return False
        _, slots = self._known[self._taken[gpu]][part]
        self._held[gpu][vm] = StateTransition(part, slots, after=0)
        self._where[vm] = gpu
        self._change(gpu, self._taken[gpu] | slots)
        return True

    def leave(self, vm: int) -> None:
        """See ``Pool``."""
        gpu = self._where.pop(vm)
        self._change(gpu, self._taken[gpu] & ~self._held[gpu].pop(vm).slots)

    def held(self) -> Iterable[Iterable[StateTransition]]:
        """See ``Pool``."""
        return [gpu.values() for gpu in self._held]

    def active(self) -> int | None:
        """See ``Pool``."""
        return sum(map(bool, self._taken))

    def _change(self, gpu: int, mask: int) -> None:
        self._taken[gpu] = mask
        if mask not in self._known:
            self._known[mask] = tuple(self._best(part, mask) for part in self._parts)
        self._scores[:, gpu] = [score for score, _ in self._known[mask]]

    def _best(self, part: int, mask: int) -> Ways:
        free = (slots for slots in self._masks.starts[part] if not mask & slots)
        found = [(self._score(self._masks, mask, slots), n, slots) for n, slots in enumerate(free)]
        score, _, slots = min(found, default=(np.inf, 0, 0))
        return score, slots
