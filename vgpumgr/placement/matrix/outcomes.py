"""What each type would make of the GPUs of one host, whatever the host's CPUs and memory.

Hosts whose GPUs are in the same states share this, so it is worked out once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.several import Change, changes
from vgpumgr.placement.matrix.wants import Flags, Floats, Ints, Wants
from vgpumgr.placement.table.states import NOTHING, StateTable


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Choices of a host's GPUs, type by type, and what of the GPUs is useful after each.

    Choice n is: type ``types[n]`` takes a GPU in state ``rows[n]`` (0 where it takes none, or
    several), which leads to ``results[n]``. ``chosen`` are the types with any choice, ``first``
    where theirs begin. Of the results, 0 is the host as it is: ``free[result]`` in thousandths of
    a GPU, ``useful[result, m]`` how much of that helps entry m of the mix, times its weight, and
    ``worth[result]`` what its GPUs gain in worth; ``idle[result]`` is what is free of GPUs whose
    states have no value of their own.
    ``has_room`` is by type.
    """

    has_room: Flags
    types: Ints
    rows: Ints
    results: Ints
    chosen: Ints
    first: Ints
    free: Floats
    useful: Floats
    worth: Floats
    idle: Floats

    def of(self, number: int) -> tuple[Ints, Ints]:
        """The results and states that one type may choose among."""
        low, high = np.searchsorted(self.types, [number, number + 1])
        return self.results[low:high], self.rows[low:high]


def outcomes(
    gpus: Ints, has_room: Flags, wants: Wants, table: StateTable, mix: MixRows
) -> Outcomes:
    """All choices on a host whose GPUs are in these states."""
    states = np.unique(gpus[gpus != NOTHING])
    table.open_rows(states.tolist())
    types, before = _single(states, wants, table)
    after = mix.after(before, wants.columns[types, 0])
    moves = changes(gpus, wants, table, mix)
    mix.catch_up()
    pairs, results = np.unique(before * np.int64(table.rows) + after, return_inverse=True)
    every = [Change((), ())]
    every += [
        Change((was,), (now,)) for was, now in map(divmod, pairs.tolist(), repeat(table.rows))
    ]
    number = {move: len(every) + n for n, move in enumerate(dict.fromkeys(moves.values()))}
    every += number
    none = np.zeros(len(wants.without), np.int64)
    of_several = np.array([number[move] for move in moves.values()], np.int64)
    choices = np.array(
        (
            np.concatenate([types, wants.without, np.array(list(moves), np.int64)]),
            np.concatenate([before, none, np.zeros(len(moves), np.int64)]),
            np.concatenate([results + 1, none, of_several]),
        )
    )
    choices = choices[:, np.argsort(choices[0], kind="stable")]
    chosen, first = np.unique(choices[0], return_index=True)
    types, rows, results = choices
    measured = _measured(gpus, every, mix)
    return Outcomes(has_room, types, rows, results, chosen, first, *measured)


def _single(states: Ints, wants: Wants, table: StateTable) -> tuple[Ints, Ints]:
    """Every type of one part with every state that takes it."""
    room = table.room[states[:, None], wants.columns[wants.single, 0][None, :]]
    state, single = np.nonzero(room)
    return wants.single[single], states[state]


def _measured(
    gpus: Ints, every: Sequence[Change], mix: MixRows
) -> tuple[Floats, Floats, Floats, Floats]:
    """``free``, ``useful``, ``worth`` and ``idle`` of the results."""
    count = np.array([len(change.before) for change in every], np.float64)
    before = np.array([change.before[0] if change.before else 0 for change in every])
    after = np.array([change.after[0] if change.after else 0 for change in every])
    room = mix.room[gpus].sum(axis=0) + _times(mix.room[after] - mix.room[before], count)
    useful = mix.useful[gpus].sum(axis=0) + _times(mix.useful[after] - mix.useful[before], count)
    free = mix.free[gpus].sum() + _times(mix.free[after] - mix.free[before], count)
    idle = mix.idle[gpus].sum() + _times(mix.idle[after] - mix.idle[before], count)
    worth = _times(mix.worth[after] - mix.worth[before], count)
    for n, change in enumerate(every):
        if not change.uniform:
            was, is_now = list(change.before), list(change.after)
            room[n] = room[0] + (mix.room[is_now] - mix.room[was]).sum(axis=0)
            useful[n] = useful[0] + (mix.useful[is_now] - mix.useful[was]).sum(axis=0)
            free[n] = free[0] + (mix.free[is_now] - mix.free[was]).sum()
            idle[n] = idle[0] + (mix.idle[is_now] - mix.idle[was]).sum()
            worth[n] = (mix.worth[is_now] - mix.worth[was]).sum()
    weighted = np.where(room >= mix.need, useful, 0.0) * mix.weight
    return free, weighted, worth, idle


def _times(change: Floats, count: Floats) -> Floats:
    scaled: Floats = change * (count[:, None] if change.ndim == 2 else count)
    return scaled
