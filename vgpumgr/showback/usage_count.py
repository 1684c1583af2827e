"""GPU time by its holders, and idle time: together all that the fleet had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.showback import (
    FOREVER,
    MICROSECONDS,
    GpuPresence,
    HeldRows,
    ReportBy,
    Span,
    UsageHistory,
    UsageKey,
    UsageLine,
)
from vgpumgr.showback.exact_sums import Whole, exact_sums
from vgpumgr.showback.usage_keys import numbered, owners

_Shape = tuple[int, ...] | None


class HeldSlots:
    """Rows of what was held, cut into slots; ``of_owner`` numbers the owner of each row.

    A slot that two rows hold at once (a VM that changes its part in place, clocks that differ) is
    held by the first of them as long as that one lasts, and then by the other.
    """

    def __init__(self, rows: HeldRows, gpus: Sequence[GpuPresence], of_owner: Whole) -> None:
        of_gpu = numbered(rows.gpus, [each.gpu for each in gpus]).of
        cut = _cut(of_gpu, [each.units for each in gpus], rows)
        since, until = _times(rows)
        slot = of_gpu[cut.row] * cut.most + cut.atom
        order = _event_order(slot, since[cut.row])
        row = cut.row[order]
        self._gpu, self._owner, self._weight = of_gpu[row], of_owner[row], cut.weight[order]
        self._since, self._until = since[row], until[row]
        _leave_to_first(slot[order], self._since, self._until)

    def groups(self, of_gpu: Whole, gpu_groups: int) -> Whole:
        """For each piece the number of its owner and of its GPU's group, together."""
        found: Whole = self._owner * gpu_groups + of_gpu[self._gpu]
        return found

    def sums(self, span: Span, groups: Whole, count: int) -> list[int]:
        """Slots times microseconds of each group within the span."""
        return exact_sums(groups, self._slot_time(span, slice(None)), count)

    def held_of(self, gpu: int, span: Span) -> int:
        """Slots times microseconds of one GPU, by its number, within the span."""
        first, end = np.searchsorted(self._gpu, [gpu, gpu + 1])
        found = self._slot_time(span, slice(first, end))
        return exact_sums(np.zeros(len(found), np.int64), found, 1)[0]

    def _slot_time(self, span: Span, part: slice) -> Whole:
        until = np.minimum(self._until[part], span.until)
        long = np.maximum(until - np.maximum(self._since[part], span.since), 0)
        found: Whole = long * self._weight[part]
        return found


def _times(rows: HeldRows) -> tuple[Whole, Whole]:
    since = _rounded(np.array(rows.since, dtype=np.float64))
    ends = np.array(rows.until, dtype=np.float64)  # None becomes NaN
    still = np.isnan(ends)
    until = np.where(still, FOREVER, _rounded(np.where(still, 0.0, ends)))
    return since, np.maximum(since, until)


def _rounded(seconds: NDArray[np.float64]) -> Whole:
    whole: Whole = np.rint(seconds * MICROSECONDS).astype(np.int64)
    return whole


def _event_order(slots: Whole, since: Whole) -> Whole:
    """By slot and then by time. The ledger tells rows by time, and short numbers sort faster."""
    short = slots.astype(np.min_scalar_type(int(slots.max(initial=0))))
    if np.all(since[1:] >= since[:-1]):
        return np.argsort(short, kind="stable")
    first = np.argsort(since, kind="stable")
    order: Whole = first[np.argsort(short[first], kind="stable")]
    return order


def _leave_to_first(slots: Whole, since: Whole, until: Whole) -> None:
    """Where pieces of one slot overlap, let the later one begin when the earlier one ends."""
    meets = (slots[1:] == slots[:-1]) & (until[:-1] > since[1:])
    for slot in np.unique(slots[1:][meets]).tolist():
        first, end = np.searchsorted(slots, [slot, slot + 1])
        free = 0
        for at in range(first, end):
            since[at] = max(int(since[at]), free)
            until[at] = free = max(int(until[at]), int(since[at]))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows cut into pieces: which row each is of, its atom on the board, the atom's slots. A board
    has at most ``most`` atoms.
    """

    row: Whole
    atom: Whole
    weight: Whole
    most: int


def _cut(of_gpu: Whole, units: Sequence[int], rows: HeldRows) -> _Cut:
    """Cut at atoms: slots that every row holds together, or not at all."""
    sizes = numbered(units)
    shapes = len(rows.shapes)
    of_row = sizes.of[of_gpu] * shapes + np.array(rows.shape_of, dtype=np.int64)
    held = np.flatnonzero(np.bincount(of_row)).tolist()
    atoms = _atoms([(sizes.known[at // shapes], rows.shapes[at % shapes]) for at in held])
    return _pieces(np.searchsorted(held, of_row), atoms)


def _pieces(of_row: Whole, atoms: Sequence[Sequence[tuple[int, int]]]) -> _Cut:
    """Every row as often as what it holds has atoms."""
    flat = np.array([each for some in atoms for each in some], dtype=np.int64).reshape(-1, 2)
    counts = np.array([len(each) for each in atoms], dtype=np.int64)
    begins = np.cumsum(counts) - counts
    times = counts[of_row]
    row = np.repeat(np.arange(len(of_row)), times)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    place = begins[of_row[row]] + nth
    most = int(flat[:, 0].max(initial=0)) + 1
    return _Cut(row, flat[place, 0], flat[place, 1], most)


def _atoms(shapes: Sequence[tuple[int, _Shape]]) -> list[list[tuple[int, int]]]:
    """The atoms of each shape (the board's slots, and those of them that are held; None: all): its
    number, on boards of that many slots, and how many slots it has.
    """
    held_by: dict[tuple[int, int], list[int]] = {}
    for at, (units, slots) in enumerate(shapes):
        whole = range(units)
        for slot in whole if slots is None else {each for each in slots if each in whole}:
            held_by.setdefault((units, slot), []).append(at)
    atoms: dict[tuple[int, ...], int] = {}
    for (units, _), holders in held_by.items():
        together = (units, *holders)
        atoms[together] = atoms.get(together, 0) + 1
    found: list[list[tuple[int, int]]] = [[] for _ in shapes]
    for number, ((_, *holders), size) in enumerate(atoms.items()):
        for at in holders:
            found[at].append((number, size))
    return found


class UsageCount:
    """The use of a fleet, counted once; :meth:`lines` tells it of a span."""

    def __init__(self, history: UsageHistory, by: ReportBy) -> None:
        self._gpus = history.gpus
        self._kinds, self._kind_of = numbered([(each.model, each.units) for each in self._gpus])
        self._keys, of_owner = owners(history.held, history.pools, by)
        self._held = HeldSlots(history.held, self._gpus, of_owner)
        self._groups = self._held.groups(self._kind_of, len(self._kinds))

    def lines(self, span: Span) -> tuple[UsageLine, ...]:
        """By key and model, and at the end the idle time of each model; the GPU times are
        exactly those of every board that was there. What is zero has no line.
        """
        count = len(self._keys) * len(self._kinds)
        sums = np.array(self._held.sums(span, self._groups, count), dtype=object)
        by_kind = sums.reshape(len(self._keys), len(self._kinds))
        idle = np.array(self.capacity(span), dtype=object) - by_kind.sum(axis=0, initial=0)
        held = zip(self._keys, by_kind.tolist(), strict=True)
        told = [line for key, row in held for line in self._of(key, row, span)]
        return (*sorted(told, key=_order), *self._of(None, idle.tolist(), span))

    def _of(self, key: UsageKey | None, row: Sequence[int], span: Span) -> Iterator[UsageLine]:
        """One line for each model; boards of one model may have been cut into unlike slots."""
        by_model: dict[str, Fraction] = {}
        for (model, units), slot_time in zip(self._kinds, row, strict=True):
            if slot_time:
                by_model[model] = by_model.get(model, Fraction()) + Fraction(slot_time, units)
        for model in sorted(by_model):
            yield UsageLine(key=key, model=model, span=span, gpu_time=by_model[model])

    def capacity(self, span: Span) -> list[int]:
        """Slots times microseconds of each kind of board: of all its slots while it was in the
        fleet, and of what was held while it was missing.
        """
        found = [0] * len(self._kinds)
        for number, gpu in enumerate(self._gpus):
            found[int(self._kind_of[number])] += self._of_gpu(number, gpu, span)
        return found

    def _of_gpu(self, number: int, gpu: GpuPresence, span: Span) -> int:
        there = [each for each in (each.within(span) for each in gpu.present) if each.long]
        long = sum(each.long for each in there)
        if long == span.long:
            return gpu.units * long
        held_there = sum(self._held.held_of(number, each) for each in there)
        return gpu.units * long + self._held.held_of(number, span) - held_there


def _order(line: UsageLine) -> tuple[UsageKey, str]:
    return line.key or UsageKey(), line.model
