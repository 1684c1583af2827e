"""Held slots as arrays: each slot has one holder at a time, and its time is summed exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from vgpumgr.model.showback import FOREVER, MICROSECONDS, GpuPresence, HeldRows, Span, UsageKey
from vgpumgr.showback.exact_sums import Whole, exact_sums

K = TypeVar("K")
_Slots = tuple[int, ...]


class HeldSlots:
    """Rows of what was held, cut into slots.

    A slot that two rows hold at once (a VM that changes its part in place, clocks that differ) is
    held by the first of them as long as that one lasts, and then by the other.
    """

    def __init__(
        self, rows: HeldRows, gpus: Sequence[GpuPresence], pools: Mapping[str, str]
    ) -> None:
        self.gpus = gpus
        units = np.array([each.units for each in gpus], dtype=np.int64)
        number = {each.gpu: at for at, each in enumerate(gpus)}
        of_gpu = np.fromiter(map(number.__getitem__, rows.gpus), np.int64, len(rows.gpus))
        self.owners, of_owner = _owners(rows, pools)
        cut = _cut(of_gpu, units, rows.slots)
        since, until = _times(rows)
        order = _order(of_gpu[cut.row] * cut.most + cut.atom, since[cut.row])
        row = cut.row[order]
        self._gpu, self._owner, self._weight = of_gpu[row], of_owner[row], cut.weight[order]
        self._since, self._until = since[row], until[row]
        _leave_to_first(self._gpu * cut.most + cut.atom[order], self._since, self._until)

    def sums(self, span: Span, groups: Whole, count: int) -> list[int]:
        """Slots times microseconds of each group within the span; ``groups`` has one for each
        piece (:meth:`pieces`).
        """
        return exact_sums(groups, self._slot_time(span, slice(None)), count)

    def pieces(self, of_owner: Whole, of_gpu: Whole, gpu_groups: int) -> Whole:
        """For each piece the group of its owner and its GPU."""
        return of_owner[self._owner] * gpu_groups + of_gpu[self._gpu]

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


def _owners(rows: HeldRows, pools: Mapping[str, str]) -> tuple[list[UsageKey], Whole]:
    """Each VM with each profile that it had, and the number of it for every row."""
    known, of_row = numbered(zip(rows.vm_ids, rows.profiles, strict=True), len(rows.vm_ids))
    first = dict(zip(of_row[::-1].tolist(), range(len(of_row) - 1, -1, -1), strict=True))
    keys = [
        UsageKey(rows.tenants[first[at]], pools.get(vm_id, ""), rows.vms[first[at]], vm_id, profile)
        for at, (vm_id, profile) in enumerate(known)
    ]
    return keys, of_row


def numbered(things: Iterable[K], count: int) -> tuple[list[K], Whole]:
    """The things that differ, in the order of their first, and which one is at every place."""
    known: dict[K, int] = {}
    number: Callable[[K], int] = lambda each: known.setdefault(each, len(known))  # noqa: E731
    found = np.fromiter(map(number, things), np.int64, count)
    return list(known), found


def _times(rows: HeldRows) -> tuple[Whole, Whole]:
    since = _rounded(np.array(rows.since, dtype=np.float64))
    open_ = np.array([each is None for each in rows.until], dtype=bool)
    ends = np.array([each or 0.0 for each in rows.until], dtype=np.float64)
    until = np.where(open_, FOREVER, _rounded(ends))
    return since, np.maximum(since, until)


def _rounded(seconds: np.ndarray) -> Whole:
    whole: Whole = np.rint(seconds * MICROSECONDS).astype(np.int64)
    return whole


def _order(keys: Whole, since: Whole) -> Whole:
    """By key and then by time."""
    first = np.argsort(since, kind="stable")
    order: Whole = first[np.argsort(keys[first], kind="stable")]
    return order


def _leave_to_first(keys: Whole, since: Whole, until: Whole) -> None:
    """Where pieces of one slot overlap, let the later one begin when the earlier one ends."""
    meets = (keys[1:] == keys[:-1]) & (until[:-1] > since[1:])
    for key in np.unique(keys[1:][meets]).tolist():
        first, end = np.searchsorted(keys, [key, key + 1])
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


def _cut(of_gpu: Whole, units: Whole, slots: Sequence[_Slots | None]) -> _Cut:
    """Cut at atoms: the slots that every row holds together, or not at all."""
    of_row = units[of_gpu] if len(of_gpu) else of_gpu
    shapes, shape_of = numbered(zip(of_row.tolist(), slots, strict=True), len(slots))
    atoms = _atoms(shapes)
    counts = np.array([len(each) for each in atoms], dtype=np.int64)
    begins = np.concatenate([[0], np.cumsum(counts)])[:-1] if len(counts) else counts
    flat = np.array([each for some in atoms for each in some], dtype=np.int64).reshape(-1, 2)
    times = counts[shape_of] if len(counts) else shape_of
    row = np.repeat(np.arange(len(slots)), times)
    ends = np.cumsum(times)
    place = np.arange(len(row)) - np.repeat(ends - times, times)
    place += begins[shape_of[row]] if len(row) else place
    return _Cut(row, flat[place, 0], flat[place, 1], int(flat[:, 0].max(initial=0)) + 1)


def _atoms(shapes: Sequence[tuple[int, _Slots | None]]) -> list[list[tuple[int, int]]]:
    """The atoms of each shape (the board's slots and those that are held; None: all), as its number
    on boards of so many slots and how many slots it has.
    """
    held_by: dict[tuple[int, int], list[int]] = {}
    for at, (units, slots) in enumerate(shapes):
        for slot in set(range(units) if slots is None else slots):
            held_by.setdefault((units, slot), []).append(at)
    atoms: dict[tuple[int, tuple[int, ...]], int] = {}
    for (units, _), holders in held_by.items():
        together = (units, tuple(holders))
        atoms[together] = atoms.get(together, 0) + 1
    found: list[list[tuple[int, int]]] = [[] for _ in shapes]
    for number, ((_, holders), size) in enumerate(atoms.items()):
        for at in holders:
            found[at].append((number, size))
    return found
