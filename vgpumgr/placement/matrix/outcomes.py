"""What each type would make of the GPUs of one host, whatever the host's CPUs and memory.

Hosts whose GPUs are in the same states share this, so it is worked out once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.several import Laid, laid_out
from vgpumgr.placement.matrix.wants import Flags, Floats, Ints, Wants
from vgpumgr.placement.table.states import NOTHING, StateTable

_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Ways:
    """What types of one part, or of none, may do where GPUs are in some states, however many.

    Way n is: type ``types[n]`` takes a GPU in state ``rows[n]`` (0: takes none), which leads to
    result ``results[n]``. ``chosen`` are the types with any way, in order, ``first`` where theirs
    begin. Result 0 is the host as it is; in result n + 1 a GPU goes from ``before[n]`` to
    ``after[n]``.
    """

    types: Ints
    rows: Ints
    results: Ints
    chosen: Ints
    first: Ints
    before: Ints
    after: Ints

    def of(self, number: int) -> tuple[Ints, Ints]:
        """The results and states that one type may choose among."""
        low, high = self.types.searchsorted((number, number + 1))
        return self.results[low:high], self.rows[low:high]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The ways on one host, and what is useful of its GPUs after each.

    Of the results, ``free[result]`` is in thousandths of a GPU, ``useful[result, m]`` how much of
    that helps entry m of the mix, times its weight, ``worth[result]`` what its GPUs gain in worth,
    and ``idle[result]`` what is free of GPUs whose states have no value of their own. The last
    results are of the types in ``several``, in order. ``has_room`` is by type.
    """

    has_room: Flags
    ways: Ways
    several: Ints
    free: Floats
    useful: Floats
    worth: Floats
    idle: Floats


class Deriving:
    """Works out outcomes for the types of ``wants``; remembers ways by sets of states."""

    def __init__(self, wants: Wants, table: StateTable, mix: MixRows) -> None:
        self._wants = wants
        self._table = table
        self._mix = mix
        self._ways: dict[bytes, Ways] = {}

    def of(self, gpus: Ints, has_room: Flags) -> Outcomes:
        """All that may be done on a host whose GPUs are in these states, in order."""
        ways = self.ways(gpus)
        several = laid_out(gpus, self._wants, self._table, self._mix)
        self._mix.catch_up()
        numbers = np.array(list(several), np.int64)
        return Outcomes(has_room, ways, numbers, *self._measured(gpus, ways, several.values()))

    def ways(self, gpus: Ints) -> Ways:
        """Those of types of one part, or of none."""
        states = np.unique(gpus[gpus != NOTHING])
        key = states.tobytes()
        found = self._ways.get(key)
        if found is None:
            if len(self._ways) >= _REMEMBERED:
                self._ways.clear()
            found = self._ways[key] = self._derived(states)
        return found

    def _derived(self, states: Ints) -> Ways:
        wants, table = self._wants, self._table
        table.open_rows(states.tolist())
        self._mix.catch_up()
        columns = wants.columns[wants.single, 0]
        state, single = np.nonzero(table.room[states[:, None], columns[None, :]])
        types, before = wants.single[single], states[state]
        after = self._mix.after(before, columns[single])
        many = np.int64(table.rows)
        pairs, results = np.unique(before * many + after, return_inverse=True)
        none = np.zeros(len(wants.without), np.int64)
        ways = np.array(
            (
                np.concatenate([types, wants.without]),
                np.concatenate([before, none]),
                np.concatenate([results + 1, none]),
            )
        )
        types, rows, results = ways[:, np.argsort(ways[0], kind="stable")]
        chosen, first = np.unique(types, return_index=True)
        return Ways(types, rows, results, chosen, first, *np.divmod(pairs, many))

    def _measured(
        self, gpus: Ints, ways: Ways, several: Iterable[Laid]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """``free``, ``useful``, ``worth`` and ``idle`` of the results."""
        mix, moved = self._mix, np.array(list(several), np.int64).reshape(-1, len(gpus))

        def change(of: Floats) -> Floats:
            parts = [np.zeros_like(of[:1]), of[ways.after] - of[ways.before]]
            if len(moved):
                parts.append((of[moved] - of[gpus]).sum(axis=1))
            return np.concatenate(parts)

        def summed(of: Floats) -> Floats:
            total: Floats = of[gpus].sum(axis=0) + change(of)
            return total

        room, useful = summed(mix.room), summed(mix.useful)
        weighted = np.where(room >= mix.need, useful, 0.0) * mix.weight
        return summed(mix.free), weighted, change(mix.worth), summed(mix.idle)
