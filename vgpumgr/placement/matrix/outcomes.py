"""What each type would make of the GPUs of one host, whatever the host's CPUs and memory.

Hosts whose GPUs are in the same states share this, so it is worked out once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.several import laid_out
from vgpumgr.placement.matrix.wants import Floats, Ints, Wants
from vgpumgr.placement.table.states import NOTHING, StateTable

_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Ways:
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


class Deriving:
    """Works out outcomes for the types of ``wants``; remembers the ways of states."""

    def __init__(self, wants: Wants, table: StateTable, mix: MixRows) -> None:
        self._wants = wants
        self._table = table
        self._mix = mix
        self._ways: dict[int, Ways] = {}
        self._none = np.zeros(len(wants.without), np.int64)

    def of(self, gpus: Ints) -> Outcomes:
        """All that may be done on a host whose GPUs are in these states, in order."""
        states = [row for row in dict.fromkeys(gpus.tolist()) if row != NOTHING]
        ways = [self.ways(row) for row in states]
        laid = laid_out(gpus, self._wants, self._table, self._mix)
        self._mix.catch_up()
        lengths = [len(each.after) for each in ways]
        starts = np.cumsum([1, *lengths])
        several = np.array(list(laid), np.int64)
        last = np.arange(starts[-1], starts[-1] + len(several))
        sizes = [len(each.types) for each in ways]
        results = (each.results + start for each, start in zip(ways, starts, strict=False))
        types = [*(each.types for each in ways), self._wants.without, several]
        runs = np.cumsum([0, *map(len, types)]).tolist()
        rows = np.zeros(runs[-1], np.int64)
        rows[: runs[len(ways)]] = np.repeat(states, sizes)
        measured = self._measured(
            gpus,
            np.repeat(np.array(states, np.int64), lengths),
            np.concatenate([np.zeros(0, np.int64), *(each.after for each in ways)]),
            np.array([now for now, _ in laid.values()], np.int64).reshape(-1, len(gpus)),
        )
        surplus = np.zeros(len(rows))
        end = runs[len(ways)]
        columns = self._wants.columns[np.concatenate([*types])[:end], 0]
        surplus[:end] = self._table.surplus[rows[:end], columns]
        surplus[len(surplus) - len(laid) :] = [extra for _, extra in laid.values()]
        return Outcomes(
            np.concatenate(types), rows, np.concatenate([*results, self._none, last]), runs,
            *measured, surplus,
        )  # fmt: skip

    def ways(self, row: int) -> Ways:
        """Those of a GPU in this state."""
        found = self._ways.get(row)
        if found is None:
            if len(self._ways) >= _REMEMBERED:
                self._ways.clear()
            found = self._ways[row] = self._derived(row)
        return found

    def _derived(self, row: int) -> Ways:
        wants, table = self._wants, self._table
        table.open_rows([row])
        self._mix.catch_up()
        columns = wants.columns[wants.single, 0]
        takes = np.flatnonzero(table.room[row, columns])
        after = self._mix.after(np.full(len(takes), row), columns[takes])
        different, results = np.unique(after, return_inverse=True)
        return Ways(wants.single[takes], results, different)

    def _measured(
        self, gpus: Ints, before: Ints, after: Ints, moved: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """``free``, ``useful``, ``worth`` and ``idle`` of the results."""
        mix = self._mix

        def change(of: Floats) -> Floats:
            parts = [np.zeros_like(of[:1]), of[after] - of[before]]
            if len(moved):
                parts.append((of[moved] - of[gpus]).sum(axis=1))
            return np.concatenate(parts)

        def summed(of: Floats) -> Floats:
            total: Floats = of[gpus].sum(axis=0) + change(of)
            return total

        room, useful = summed(mix.room), summed(mix.useful)
        weighted = np.where(room >= mix.need, useful, 0.0) * mix.weight
        return summed(mix.free), weighted, change(mix.worth), summed(mix.idle)
