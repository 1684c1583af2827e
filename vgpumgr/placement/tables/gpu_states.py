"""The table of GPU states: per state how much of each part fits, and the state after it.

A row is a state of a GPU (what it makes, and what lies on it), shared by all GPUs of the fleet
that are in it; a column is a part that some request asks for. Rows are worked out when first
met, by the rules themselves; where units alone tell states apart, in closed form
(``SlotCountStates``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import GpuSupply, Offer
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.fit.gpu_rules import first_fit, places, room
from vgpumgr.placement.fit.policy_keys import BREADTH, DEPTH, KEYS, packed_key, packed_rank
from vgpumgr.placement.resources.demand import Demand, KindKey, PartKind, rank, surplus, whole
from vgpumgr.placement.resources.gpu_slots import Spot
from vgpumgr.placement.resources.gpu_state import (
    BoardBook,
    BoardLayout,
    GpuOccupancy,
    limited,
    state_key,
)

_Scalar = TypeVar("_Scalar", bound=np.generic)


def grown(array: NDArray[_Scalar], shape: tuple[int, ...], fill: float = 0) -> NDArray[_Scalar]:
    """``array`` itself where it has the shape's room, else a larger copy."""
    if all(has >= need for has, need in zip(array.shape, shape, strict=True)):
        return array
    wider = tuple(
        has if has >= need else max(need, has + has // 4 + 8)
        for has, need in zip(array.shape, shape, strict=True)
    )
    larger = np.full(wider, fill, array.dtype)
    larger[tuple(slice(0, has) for has in array.shape)] = array
    return larger


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


ALL = np.iinfo(np.int64).max
"""In ``opened``: every column, whenever it comes."""

NOTHING = 0
"""The row of a GPU that is not there, or that nothing may be placed on."""

MILLI = 1000.0
"""A whole GPU, in the unit of ``free``: boards of different sizes weigh alike."""

STEP = 2.0**-10
"""Thousandths are rounded to it where they are summed: sums are then exact, and so the same in
whatever order a way to rate hosts takes them."""


def stepped(milli: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thousandths as multiples of ``STEP``."""
    rounded: NDArray[np.float64] = np.rint(milli / STEP) * STEP
    return rounded


PACKED = (BREADTH, DEPTH)


class StateTable:
    """``room[row, column]``, ``after[row, column]`` (a row), ``free[row]`` in thousandths of a GPU.

    ``units`` are the free units as they are; ``keys_by(policy)[row, column]`` is the packed key
    of the GPU under that policy, inf without room. ``surplus[row, column]`` is what a part by size
    takes there beyond the size asked for, as it costs; ``ranks[row, column]`` is the packed rank of
    the offer that it becomes, 0 for parts by name. Where there are several places for a part,
    ``after`` is for the place that the rules name first. ``opened[row]`` is how many
    columns of it are worked out. ``keys[row]`` is the key of a state that is not told apart by its
    units alone. ``room`` holds for every row; the other columns only for rows that ``open_rows``
    was asked for.
    """

    def __init__(self, boards: BoardBook) -> None:
        self.parts = PartColumns()
        self.rows = 1
        self.room = np.zeros((64, 8), np.int32)
        self.after = np.zeros((64, 8), np.int32)
        self.free = np.zeros(64, np.float64)
        self.units = np.zeros(64, np.int64)
        self._keys_by: dict[PlacementPolicy, NDArray[np.float64]] = {}
        self.surplus = np.zeros((64, 8), np.float32)
        self.ranks = np.zeros((64, 8), np.int32)
        self._boards = boards
        self.keys: dict[int, Hashable] = {}
        self._choices: dict[tuple[int, int], tuple[int, ...]] = {}
        self._known: dict[Hashable, int] = {}
        self.opened = np.zeros(64, np.int64)
        self._samples: dict[int, GpuOccupancy] = {}
        self._roomed: dict[int, int] = {}
        self._slot_counts: dict[Hashable, SlotCountStates] = {}

    # --- rows ---

    def row_of(self, gpu: GpuOccupancy) -> int:
        """The row of the GPU as it is now."""
        if gpu.row is None or gpu.row[0] is not self:
            gpu.row = self, self._find(gpu)
        return gpu.row[1]

    def row_of_supply(self, supply: GpuSupply) -> int:
        """The row of a GPU as it was found."""
        return self.row_of(GpuOccupancy("", supply, self._boards))

    def sample(self, row: int) -> GpuOccupancy:
        """A GPU in that state, for rows that have a key."""
        return self._samples[row]

    def board(self, row: int) -> BoardLayout | None:
        """The board of GPUs in that state; None for ``NOTHING``."""
        if row in self._samples:
            return self._samples[row].board
        ladders = self._slot_counts.values()
        return next((each.board for each in ladders if each.first <= row < each.end), None)

    def keys_by(self, policy: PlacementPolicy) -> NDArray[np.float64]:
        """The packed keys of a policy that has some (``PACKED``), kept up once asked for."""
        if policy not in self._keys_by:
            keys = self._keys_by[policy] = np.full(self.room.shape, np.inf)
            for counts in self._slot_counts.values():
                rows = slice(counts.first, counts.end)
                has_room = self.room[rows] > 0
                keys[rows] = np.where(has_room, counts.packed_keys(policy)[:, None], np.inf)
            for row in self._samples:
                for column in range(int(self.opened[row])):
                    self._fill_key(row, column, policy)
        return self._keys_by[policy]

    def _fill_key(self, row: int, column: int, policy: PlacementPolicy) -> None:
        gpu, part = self._samples[row], self.parts.all[column]
        if self.room[row, column] and (found := first_fit(gpu, part.kind, part.demand)):
            self._keys_by[policy][row, column] = packed_key(policy, KEYS[policy].gpu(gpu, *found))

    def column(self, part: Part) -> int:
        """The column of a part; room is known for all rows when this returns."""
        before = len(self.parts)
        column = self.parts.column(part.kind, part.demand)
        if len(self.parts) > before:
            self._widen()
        return column

    def open_rows(self, rows: Iterable[int]) -> None:
        """Work out what these rows become with one more of each part."""
        for row in rows:
            if self.opened[row] < len(self.parts) and row in self._samples:
                self._open(row)

    def choices(self, row: int, column: int) -> tuple[int, ...]:
        """What an opened row with room may become, by place, the one that the rules name first."""
        if row not in self._samples:
            return (int(self.after[row, column]),)
        found = self._choices.get((row, column))
        if found is None:
            gpu, part = self._samples[row], self.parts.all[column]
            there = places(gpu, part.kind, part.demand)
            assert there is not None, "asked for a row without room"
            found = tuple(self.after_spot(gpu, there[0], spot) for spot in there[1])
            self._choices[row, column] = found
        return found

    def after_spot(self, gpu: GpuOccupancy, offer: Offer, spot: Spot) -> int:
        """The row that the GPU is in with one more of ``offer`` at ``spot``."""
        before = gpu.take(offer, spot)
        row = self.row_of(gpu)
        gpu.give_back(before)
        return row

    def _find(self, gpu: GpuOccupancy) -> int:
        if gpu.supply.blocked:
            return NOTHING
        counts = self._slot_counts_of(gpu)
        row = counts.row(gpu) if counts else None
        return row if row is not None else self._row(gpu)

    def _row(self, gpu: GpuOccupancy) -> int:
        key = state_key(gpu)
        row = self._known.get(key)
        if row is None:
            row = self._known[key] = self._add(1)
            self.keys[row] = key
            self._samples[row] = gpu.copy()
            self._measure(row, gpu.free_units, gpu.supply.units)
            self._fill_room(row)
        return row

    def _add(self, count: int) -> int:
        first = self.rows
        self.rows += count
        self._grow()
        return first

    def _measure(self, row: int, free: int, units: int) -> None:
        self.units[row] = free
        self.free[row] = MILLI * free / units if units else 0.0

    def _fill_room(self, row: int) -> None:
        gpu = self._samples[row]
        for column in range(self._roomed.get(row, 0), len(self.parts)):
            part = self.parts.all[column]
            self.room[row, column] = room(gpu, part.kind, part.demand)
        self._roomed[row] = len(self.parts)

    def _open(self, row: int) -> None:
        gpu = self._samples[row]
        for column in range(int(self.opened[row]), len(self.parts)):
            if self.room[row, column]:
                self._open_part(row, column, gpu, self.parts.all[column])
        self.opened[row] = len(self.parts)

    def _open_part(self, row: int, column: int, gpu: GpuOccupancy, part: Part) -> None:
        found = first_fit(gpu, part.kind, part.demand)
        assert found is not None, "opened a row without room"
        after = self.after[row, column] = self.after_spot(gpu, *found)
        extra = surplus(found[0], part.kind)
        self.surplus[row, column] = stepped(extra * (self.free[row] - self.free[after]))
        self.ranks[row, column] = _rank(found[0], part)
        for policy, keys in self._keys_by.items():
            keys[row, column] = packed_key(policy, KEYS[policy].gpu(gpu, *found))

    # --- ladders ---

    def _slot_counts_of(self, gpu: GpuOccupancy) -> SlotCountStates | None:
        supply = gpu.supply
        if supply.same_size or supply.available or supply.instances:
            return None
        key = gpu.board.number, bool(supply.passthrough_blocked)
        if key not in self._slot_counts:
            if not counts_slots_only(gpu):
                return None
            self._slot_counts[key] = self._add_slot_counts(gpu)
        return self._slot_counts[key]

    def _add_slot_counts(self, gpu: GpuOccupancy) -> SlotCountStates:
        goes_whole = gpu.board.makes_whole and not gpu.supply.passthrough_blocked
        first = self._add(gpu.board.units + 2)
        counts = SlotCountStates(gpu.board, first, goes_whole=goes_whole)
        self.units[first : counts.end] = counts.free()
        self.opened[first : counts.end] = ALL
        self.free[first : counts.end] = MILLI * counts.free() / max(1, gpu.board.units)
        for column, part in enumerate(self.parts.all):
            self._fill_slot_counts(counts, column, part)
        return counts

    def _fill_slot_counts(self, counts: SlotCountStates, column: int, part: Part) -> None:
        rows = slice(counts.first, counts.end)
        room, after, extra, ranks = counts.fill(part)
        self.room[rows, column], self.after[rows, column] = room, after
        self.ranks[rows, column] = ranks
        self.surplus[rows, column] = stepped(extra * (self.free[rows] - self.free[after]))
        for policy, keys in self._keys_by.items():
            has_room = self.room[rows, column] > 0
            keys[rows, column] = np.where(has_room, counts.packed_keys(policy), np.inf)

    # --- growth ---

    def _widen(self) -> None:
        """One column more: slot-count states at once, the room of other rows one by one."""
        self._grow()
        column = len(self.parts) - 1
        for counts in self._slot_counts.values():
            self._fill_slot_counts(counts, column, self.parts.all[column])
        for row in self._samples:
            self._fill_room(row)

    def _grow(self) -> None:
        shape = self.rows, len(self.parts)
        self.room = grown(self.room, shape)
        self.after = grown(self.after, shape)
        self.surplus = grown(self.surplus, shape)
        self.ranks = grown(self.ranks, shape)
        self.free = grown(self.free, shape[:1])
        self.units = grown(self.units, shape[:1])
        self.opened = grown(self.opened, shape[:1])
        self._keys_by = {
            policy: grown(keys, shape, np.inf) for policy, keys in self._keys_by.items()
        }


# Most fleets of shared GPUs are so: no places, no limits but the units. What would be worked out
# state by state through the rules has a closed form there; a test holds it against the rules.


MOST_UNITS = 4096

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class SlotCountStates:
    """Rows ``first`` … ``first + units`` are a used GPU by its free units, then comes an empty one.

    ``goes_whole``: an empty one may be given whole.
    """

    __slots__ = ("_packed_keys", "board", "first", "goes_whole")

    def __init__(self, board: BoardLayout, first: int, *, goes_whole: bool) -> None:
        self.board = board
        self.first = first
        self.goes_whole = goes_whole
        self._packed_keys: dict[PlacementPolicy, NDArray[np.float64]] = {}

    @property
    def empty(self) -> int:
        """The row of a GPU that nothing lives on."""
        return self.first + self.board.units + 1

    @property
    def end(self) -> int:
        """The row after its last."""
        return self.empty + 1

    def free(self) -> Ints:
        """Free units by row."""
        return np.append(np.arange(self.board.units + 1), self.board.units)

    def row(self, gpu: GpuOccupancy) -> int | None:
        """The GPU's row; None where slots without a holder are not free."""
        free = gpu.grid.free.bit_count()
        if not gpu.used:
            return self.empty if free == self.board.units else None
        return None if free and gpu.whole else self.first + free

    def fill(self, part: Part) -> tuple[Ints, Ints, Floats, Ints]:
        """How many of the part fit by row, the row after the first of them, which share of what
        it takes was not asked for, and the rank of its offer (see ``StateTable.ranks``).
        """
        offers = [each for each in self.board.matching(part.kind) if self._makes(each, part)]
        room = np.zeros(self.board.units + 2, np.int64)
        after, extra, ranks = np.zeros_like(room), np.zeros(len(room)), np.zeros_like(room)
        if len(offers) == 1 and not whole(offers[0]):
            room = self.free() // offers[0].units
            after = np.where(room > 0, self.first + self.free() - offers[0].units, 0)
            extra[room > 0] = surplus(offers[0], part.kind)
            ranks[room > 0] = _rank(offers[0], part)
        else:
            taken = self._step_by_step(offers, room, after)
            for row, offer in taken.items():
                extra[row], ranks[row] = surplus(offer, part.kind), _rank(offer, part)
        return room, after, extra, ranks

    def packed_keys(self, policy: PlacementPolicy) -> NDArray[np.float64]:
        """The packed key of a GPU by row."""
        if policy not in self._packed_keys:
            self._packed_keys[policy] = np.array(self._packed(policy))
        return self._packed_keys[policy]

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

    def _step_by_step(self, offers: list[Offer], room: Ints, after: Ints) -> dict[int, Offer]:
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


def _rank(offer: Offer, part: Part) -> int:
    return 0 if part.kind.profile else packed_rank(rank(offer))


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
