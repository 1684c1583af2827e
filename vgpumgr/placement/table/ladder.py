"""A board whose states are told apart by how many of its units are free: all its rows at once.

Most fleets of shared GPUs are so: no places, no limits but the units. What would be worked out
state by state through the rules has a closed form there; a test holds it against the rules.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.placement import Offer
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.board import Board
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.offers import surplus, whole
from vgpumgr.placement.table.keys import limited
from vgpumgr.placement.table.leads import BREADTH, packed
from vgpumgr.placement.table.parts import Part

MOST_UNITS = 4096

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


class Ladder:
    """Rows ``first`` … ``first + units`` are a used GPU by its free units, then comes an empty one.

    ``goes_whole``: an empty one may be given whole.
    """

    __slots__ = ("_leads", "board", "first", "goes_whole")

    def __init__(self, board: Board, first: int, *, goes_whole: bool) -> None:
        self.board = board
        self.first = first
        self.goes_whole = goes_whole
        self._leads: dict[PlacementPolicy, NDArray[np.float64]] = {}

    @property
    def empty(self) -> int:
        """The row of a GPU that nothing lives on."""
        return self.first + self.board.units + 1

    @property
    def end(self) -> int:
        """The row after its last."""
        return self.empty + 1

    def free(self) -> Numbers:
        """Free units by row."""
        return np.append(np.arange(self.board.units + 1), self.board.units)

    def row(self, gpu: GpuState) -> int | None:
        """The GPU's row; None where its state is an odd one: slots that nobody has are not free."""
        free = gpu.grid.free.bit_count()
        if not gpu.used:
            return self.empty if free == self.board.units else None
        return None if free and gpu.whole else self.first + free

    def fill(self, part: Part) -> tuple[Numbers, Numbers, Shares]:
        """How many of the part fit by row, the row after the first of them, and how much of what
        that takes was not asked for (of all that it takes).
        """
        offers = [each for each in self.board.matching(part.kind) if self._makes(each, part)]
        room = np.zeros(self.board.units + 2, np.int64)
        after, extra = np.zeros_like(room), np.zeros(len(room))
        if len(offers) == 1 and not whole(offers[0]):
            room = self.free() // offers[0].units
            after = np.where(room > 0, self.first + self.free() - offers[0].units, 0)
            extra[room > 0] = surplus(offers[0], part.kind)
        else:
            taken = self._step_by_step(offers, room, after)
            for row, offer in taken.items():
                extra[row] = surplus(offer, part.kind)
        return room, after, extra

    def lead(self, policy: PlacementPolicy) -> NDArray[np.float64]:
        """The packed key of a GPU by row."""
        if policy not in self._leads:
            self._leads[policy] = np.array(self._packed(policy))
        return self._leads[policy]

    def _packed(self, policy: PlacementPolicy) -> list[float]:
        whole = [0] * (self.board.units + 1) + [int(self.goes_whole)]
        keys = zip(self.free().tolist(), whole, strict=True)
        if policy is BREADTH:
            return [packed(policy, (-free, 0, 0, goes)) for free, goes in keys]
        empty = self.board.units + 1
        return [
            packed(policy, (0, int(n == empty), free, 0, goes))
            for n, (free, goes) in enumerate(keys)
        ]

    def _step_by_step(self, offers: list[Offer], room: Numbers, after: Numbers) -> dict[int, Offer]:
        taken: dict[int, Offer] = {}
        for row, free in enumerate(self.free().tolist()):
            empty = row == len(room) - 1
            for offer in offers:
                if whole(offer):
                    left = 0 if empty else -1
                else:
                    left = free - offer.units
                if left >= 0:
                    after[row] = self.first + left
                    room[row] = 1 + (0 if whole(offer) else room[left])
                    taken[row] = offer
                    break
        return taken

    def _makes(self, offer: Offer, part: Part) -> bool:
        return self.goes_whole if whole(offer) else part.demand.vgpus <= offer.max_per_vm


def is_ladder(gpu: GpuState) -> bool:
    """Whether free units alone tell the states of this GPU apart."""
    supply = gpu.supply
    bound = supply.instances or supply.same_size or supply.available
    return not bound and _by_units(gpu.board)


@lru_cache(maxsize=256)
def _by_units(board: Board) -> bool:
    shared = [offer for offer in board.offers if not whole(offer)]
    return (
        board.counted
        and board.units <= MOST_UNITS
        and len({offer.size_class for offer in shared}) <= 1
        and not any(offer.needs_vf or not offer.units for offer in shared)
        and not limited(board)
    )
