"""Keys of the table of GPU states: rows by what still fits, columns by the part asked for."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.fit.policy_keys import BREADTH, packed_key
from vgpumgr.placement.resources.demand import Demand, KindKey, PartKind, surplus, whole
from vgpumgr.placement.resources.gpu_state import BoardLayout, GpuOccupancy
from vgpumgr.placement.resources.slot_grid import InstanceSlots


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a kind, for a VM with ``demand.vgpus`` vGPUs in all (some types limit that)."""

    kind: PartKind
    demand: Demand


class PartColumns:
    """Columns by what they ask for, numbered as they come up."""

    def __init__(self) -> None:
        self.all: list[Part] = []
        self._known: dict[tuple[KindKey, int], int] = {}

    def __len__(self) -> int:
        return len(self.all)

    def column(self, kind: PartKind, demand: Demand) -> int:
        """The column of one part of ``kind`` for such a VM."""
        key = kind.key, demand.vgpus
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.all)
            self.all.append(Part(kind, demand))
        return number


_BOARDS = 256
"""Boards of which what their offers say is remembered."""


def state_key(gpu: GpuOccupancy) -> Hashable:
    """Equal for GPUs that take the same parts in the same places, now and later."""
    supply, grid, board = gpu.supply, gpu.grid, gpu.board
    return (
        board.number,
        board.units,
        supply.same_size,
        bool(supply.passthrough_blocked),
        grid.gpu_slices,
        _free(gpu),
        _instances(grid.instances),
        gpu.used > 0,
        gpu.whole,
        frozenset(gpu.classes) if supply.same_size else (),
        tuple(gpu.count(offer.profile) for offer in limited(board)),
        tuple(gpu.driver_left(offer) for offer in board.offers) if supply.available else (),
        min(len(gpu.vfs), _most_more(gpu)),
    )


def _free(gpu: GpuOccupancy) -> Hashable:
    """Of free slots only those matter at which something may begin, and how many there are."""
    free, board = gpu.grid.free, gpu.board
    if board.counted:
        return free.bit_count()
    return (free.bit_count(), board.shapes.opened(free)) if board.placed else free


def _most_more(gpu: GpuOccupancy) -> int:
    """No more VFs than that can come to be taken, whatever is placed."""
    smallest = _smallest(gpu.board)
    return gpu.free_units // smallest if smallest else 0


@lru_cache(maxsize=_BOARDS)
def _smallest(board: BoardLayout) -> int:
    """Units of the smallest that takes a VF; 0 where nothing does."""
    return min((max(1, o.units) for o in board.offers if o.needs_vf), default=0)


@lru_cache(maxsize=_BOARDS)
def limited(board: BoardLayout) -> tuple[Offer, ...]:
    """Offers of which a GPU holds fewer than would have a place on it."""
    return tuple(each for each in board.offers if not each.instance and _limits(board, each))


def _limits(board: BoardLayout, offer: Offer) -> bool:
    places = len(offer.starts) if offer.starts else board.units // max(1, offer.units)
    return not whole(offer) and offer.max_instances < places


def _instances(instances: tuple[InstanceSlots, ...]) -> Hashable:
    """The order in which the driver fills them matters while one of them has room."""
    seen = [
        (
            each.supply.profile_id, each.supply.start, each.slots, each.free, each.vgpus,
            each.size_class, bool(each.supply.blocked), each.supply.media, each.ours,
        )
        for each in instances
    ]  # fmt: skip
    return tuple(seen if any(each.free for each in instances) else sorted(seen))


# Most fleets of shared GPUs are so: no places, no limits but the units. What would be worked out
# state by state through the rules has a closed form there; a test holds it against the rules.


MOST_UNITS = 4096

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


class SlotCountStates:
    """Rows ``first`` … ``first + units`` are a used GPU by its free units, then comes an empty one.

    ``goes_whole``: an empty one may be given whole.
    """

    __slots__ = ("_leads", "board", "first", "goes_whole")

    def __init__(self, board: BoardLayout, first: int, *, goes_whole: bool) -> None:
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

    def row(self, gpu: GpuOccupancy) -> int | None:
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
            return [packed_key(policy, (-free, 0, 0, goes)) for free, goes in keys]
        empty = self.board.units + 1
        return [
            packed_key(policy, (0, int(n == empty), free, 0, goes))
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


def counts_slots_only(gpu: GpuOccupancy) -> bool:
    """Whether free units alone tell the states of this GPU apart."""
    supply = gpu.supply
    bound = supply.instances or supply.same_size or supply.available
    return not bound and _by_units(gpu.board)


@lru_cache(maxsize=256)
def _by_units(board: BoardLayout) -> bool:
    shared = [offer for offer in board.offers if not whole(offer)]
    return (
        board.counted
        and board.units <= MOST_UNITS
        and len({offer.size_class for offer in shared}) <= 1
        and not any(offer.needs_vf or not offer.units for offer in shared)
        and not limited(board)
    )
