"""Outcomes of each request type on one host: what it makes of the host's GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vgpumgr.placement.scores.fragmentation import Measure, MixRows, summed
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.request_types import Floats, Ints, RequestTypes

# One good way, part by part; the exact fit may find another. Hard constraints are not its business.


Bundle = tuple[tuple[int, int], ...]
"""Columns of the table, each with how many parts."""

PackedParts = tuple[list[int], float]
"""The states of all GPUs of a host afterwards, and what was taken beyond what was asked for."""


def packed_parts(
    gpus: Ints, request_types: RequestTypes, table: StateTable, mix: MixRows
) -> dict[int, PackedParts]:
    """By type, for types of several parts: the GPUs after one good way to place them."""
    rows = gpus.tolist()
    known: dict[Bundle, PackedParts | None] = {}
    found: dict[int, PackedParts] = {}
    for number in request_types.several.tolist():
        bundle = request_types.bundles[number]
        if bundle not in known:
            known[bundle] = _packed_parts(rows, bundle, table, mix)
        packed = known[bundle]
        if packed is not None:
            found[number] = packed
    return found


def _packed_parts(
    rows: list[int], bundle: Bundle, table: StateTable, mix: MixRows
) -> PackedParts | None:
    now, extra = list(rows), 0.0
    for column, count in bundle:
        for _ in range(count):
            best = _best(now, column, table, mix)
            if best is None:
                return None
            extra += float(table.surplus[now[best], column])
            now[best] = mix.after_one(now[best], column)
    return now, extra


def _best(rows: list[int], column: int, table: StateTable, mix: MixRows) -> int | None:
    """The GPU where one more part wastes least, the fullest of those."""
    room = table.room
    fit = {row for row in rows if room[row, column]}
    if not fit:
        return None
    table.open_rows(fit)
    if len(fit) > 1:
        mix.catch_up()
        fit = {min(fit, key=lambda row: _loss(row, column, table, mix))}
    return rows.index(fit.pop())


def _loss(row: int, column: int, table: StateTable, mix: MixRows) -> tuple[float, float, int]:
    loss, free, same = mix.loss(row, int(table.after[row, column]))
    return loss + float(table.surplus[row, column]), free, same


# Hosts whose GPUs are in the same states share this, so it is worked out once for all of them.


_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class PartOutcomes:
    """What types of one part may do with a GPU in one state.

    ``types[n]`` makes ``after[results[n]]`` of it; no type is there twice.
    """

    types: Ints
    results: Ints
    after: Ints


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What may be done on one host, and what is useful of its GPUs afterwards.

    Choice n: type ``types[n]`` takes a GPU in state ``rows[n]`` (0: none, or several), which leads
    to ``results[n]``. ``runs`` are bounds of choices, from each to the next of which no type is
    there twice. Result 0 is the host as it is; ``free[result]`` is in thousandths of a GPU,
    ``useful[result, m]`` how much of that helps entry m of the mix, times its weight,
    ``worth[result]`` what its GPUs gain in worth, and ``idle[result]`` what is free of GPUs whose
    states have no value of their own. ``surplus[n]`` is what choice n takes beyond what was asked.
    """

    types: Ints
    rows: Ints
    results: Ints
    runs: list[int]
    free: Floats
    useful: Floats
    worth: Floats
    idle: Floats
    surplus: Floats


class OutcomeTable:
    """Works out outcomes for the types of ``request_types``; remembers the ways of states."""

    def __init__(self, request_types: RequestTypes, table: StateTable, mix: MixRows) -> None:
        self._request_types = request_types
        self._table = table
        self._mix = mix
        self._choices_of_type: dict[int, PartOutcomes] = {}
        self._none = np.zeros(len(request_types.without), np.int64)

    def of(self, gpus: Ints) -> Outcomes:
        """All that may be done on a host whose GPUs are in these states, in order."""
        states = [row for row in dict.fromkeys(gpus.tolist()) if row != NOTHING]
        ways = [self.ways(row) for row in states]
        packed = packed_parts(gpus, self._request_types, self._table, self._mix)
        self._mix.catch_up()
        lengths = [len(each.after) for each in ways]
        starts = np.cumsum([1, *lengths])
        several = np.array(list(packed), np.int64)
        last = np.arange(starts[-1], starts[-1] + len(several))
        sizes = [len(each.types) for each in ways]
        results = (each.results + start for each, start in zip(ways, starts, strict=False))
        types = [*(each.types for each in ways), self._request_types.without, several]
        runs = np.cumsum([0, *map(len, types)]).tolist()
        rows = np.zeros(runs[-1], np.int64)
        rows[: runs[len(ways)]] = np.repeat(states, sizes)
        measured = self._measured(
            gpus,
            np.repeat(np.array(states, np.int64), lengths),
            np.concatenate([np.zeros(0, np.int64), *(each.after for each in ways)]),
            np.array([now for now, _ in packed.values()], np.int64).reshape(-1, len(gpus)),
        )
        surplus = np.zeros(len(rows))
        end = runs[len(ways)]
        columns = self._request_types.columns[np.concatenate([*types])[:end], 0]
        surplus[:end] = self._table.surplus[rows[:end], columns]
        surplus[len(surplus) - len(packed) :] = [extra for _, extra in packed.values()]
        return Outcomes(
            np.concatenate(types), rows, np.concatenate([*results, self._none, last]), runs,
            *measured, surplus,
        )  # fmt: skip

    def ways(self, row: int) -> PartOutcomes:
        """The outcomes of types of one part on a GPU in this state."""
        found = self._choices_of_type.get(row)
        if found is None:
            if len(self._choices_of_type) >= _REMEMBERED:
                self._choices_of_type.clear()
            found = self._choices_of_type[row] = self._derived(row)
        return found

    def _derived(self, row: int) -> PartOutcomes:
        request_types, table = self._request_types, self._table
        table.open_rows([row])
        self._mix.catch_up()
        columns = request_types.columns[request_types.single, 0]
        takes = np.flatnonzero(table.room[row, columns])
        after = self._mix.after(np.full(len(takes), row), columns[takes])
        different, results = np.unique(after, return_inverse=True)
        return PartOutcomes(request_types.single[takes], results, different)

    def _measured(
        self, gpus: Ints, before: Ints, after: Ints, moved: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """``free``, ``useful``, ``worth`` and ``idle`` of the results."""
        mix = self._mix

        def change(of: Measure) -> Floats:
            parts = [np.zeros_like(of[:1], np.float64), of[after] - of[before]]
            if len(moved):
                parts.append(summed(of[moved] - of[gpus]))
            return np.concatenate(parts)

        def total(of: Measure) -> Floats:
            return summed(of[gpus], axis=0) + change(of)

        room, useful = total(mix.room), total(mix.useful)
        weighted = np.where(room >= mix.need, useful, 0.0) * mix.weight
        return total(mix.free), weighted, change(mix.worth), total(mix.idle)
