"""Rates one type on many hosts at once, with the scores that ``WasteRater`` gives host by host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.plane import NEVER, Scores
from vgpumgr.placement.matrix.room import Room
from vgpumgr.placement.matrix.wants import Flags, Floats, Ints, Wants
from vgpumgr.placement.policies.fragmentation import cutting, leftover
from vgpumgr.placement.table.states import MILLI, StateTable

STRAYS = 1e6
"""With ``numa: prefer`` a VM on one node beats any that is not, on whatever host."""

UNKNOWN = -MILLI
"""Several parts may fit in a way that was not thought of: the exact fit will look for it."""

_AT_ONCE = 4096
"""Hosts: the more, the fewer calls of NumPy; for a mix of 80 types some MiB at a time."""


def scored(
    hosts: HostRows, mix: MixRows, gain: Floats, idle: Floats, left: Ints, rows: Ints
) -> Floats:
    """The score of choices: ``gain`` is by how much less is wasted, ``left`` are vCPUs,
    ``rows`` the states of the GPUs that are taken from."""
    left_over = leftover(left / hosts.most_cpu, idle / (MILLI * hosts.width))
    score: Floats = gain - left_over - cutting(mix.idle[rows])
    return score


_Way = tuple[Ints, Ints, Ints, Ints, Floats]
"""Which of the hosts, states of some of their GPUs before and after, the states that count as cut,
and what is taken beyond what was asked for."""


class _Before:
    """Hosts as they are: ``gpus`` in order, and what of them is free, and useful to whom."""

    def __init__(self, hosts: HostRows, mix: MixRows, some: Ints) -> None:
        self.cpu, self.memory = hosts.cpu[some], hosts.memory[some]
        self.gpus = gpus = np.sort(hosts.rows[some], axis=1)
        self.room, self.useful = mix.room[gpus].sum(axis=1), mix.useful[gpus].sum(axis=1)
        self.free, self.idle = mix.free[gpus].sum(axis=1), mix.idle[gpus].sum(axis=1)
        held = np.where(self.room >= mix.need, self.useful, 0.0) * mix.weight
        self.held = np.einsum("hm,hm->h", mix.open_to(self.cpu, self.memory), held)


class ByType:
    """``can_rate`` [types]: those with parts of one kind at most and without huge pages."""

    def __init__(
        self, hosts: HostRows, table: StateTable, wants: Wants, mix: MixRows, room: Room
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._wants = wants
        self._mix = mix
        self._room = room
        kinds = np.array([len(demand.kinds) for demand in wants.demands], np.int64)
        self.can_rate: Flags = (kinds <= 1) & (wants.pages == 0)

    def rate(self, numbers: Sequence[int], hosts: Ints) -> Scores:
        """[types × hosts] the scores of some types on these hosts."""
        self._open(self._hosts.rows[hosts])
        scores = np.full((len(numbers), len(hosts)), NEVER)
        for first in range(0, len(hosts), _AT_ONCE):
            some = hosts[first : first + _AT_ONCE]
            room = [self._room.on_many(number, some) for number in numbers]
            any_fits = np.flatnonzero(np.logical_or.reduce([fits for fits, _ in room]))
            before = _Before(self._hosts, self._mix, some[any_fits])
            for row, number, (fits, strays) in zip(scores, numbers, room, strict=True):
                these = np.flatnonzero(fits[any_fits])
                at = any_fits[these]
                row[first + at] = self._best(number, before, these) - strays[at] * STRAYS
        return scores

    def ways(self, number: int, host: int) -> tuple[list[int], list[float]]:
        """States of a host's GPUs that a type of one part may take, and what each would score."""
        rows = self._hosts.rows[host]
        self._open(rows)
        column = int(self._wants.columns[number, 0])
        was = np.array([row for row in sorted({*rows.tolist()}) if self._table.room[row, column]])
        if len(was) == 1:
            return was.tolist(), [0.0]
        after = self._mix.after(was, np.full_like(was, column))
        before = _Before(self._hosts, self._mix, np.array([host]))
        only = np.zeros_like(was)
        surplus = self._table.surplus[was, column]
        scores = self._score(number, before, only, was[:, None], after[:, None], was, surplus)
        return was.tolist(), scores.tolist()

    def _best(self, number: int, before: _Before, hosts: Ints) -> Scores:
        """The best that the type can make of some of the hosts."""
        if not self._wants.has_parts[number]:
            none = np.zeros((len(hosts), 1), np.int64)
            nothing = np.zeros(len(hosts))
            return self._score(number, before, hosts, none, none, none[:, 0], nothing)
        best = np.full(len(hosts), NEVER)
        for these, was, after, taken, surplus in self._ways(number, before.gpus[hosts]):
            scores = self._score(number, before, hosts[these], was, after, taken, surplus)
            best[these] = np.maximum(best[these], scores)
        return np.where(best == NEVER, UNKNOWN, best)

    def _score(
        self,
        number: int,
        hosts: _Before,
        these: Ints,
        was: Ints,
        after: Ints,
        taken: Ints,
        surplus: Floats,
    ) -> Scores:
        """Of some of the hosts, as ``_ways`` says them."""
        mix, wants = self._mix, self._wants

        def change(of: Floats) -> Floats:
            total: Floats = (of[after] - of[was]).sum(axis=1)
            return total

        left = hosts.cpu[these] - wants.cpu[number]
        open_to = mix.open_to(left, hosts.memory[these] - wants.memory[number])
        room = hosts.room[these] + change(mix.room)
        useful = hosts.useful[these] + change(mix.useful)
        held = np.where(room >= mix.need, useful, 0.0) * mix.weight
        free, idle = hosts.free[these] + change(mix.free), hosts.idle[these] + change(mix.idle)
        gain = np.einsum("hm,hm->h", open_to, held) - hosts.held[these]
        gain = gain + change(mix.worth) + (hosts.free[these] - free) - surplus
        return scored(self._hosts, mix, gain, idle, left, taken)

    def _ways(self, number: int, gpus: Ints) -> Iterator[_Way]:
        """For one part every state that takes it, for several one way."""
        column, count = self._wants.bundles[number][0]
        if count > 1:
            yield self._laid_out(gpus, column, count)
            return
        for at in range(gpus.shape[1]):
            takes = self._table.room[gpus[:, at], column] > 0
            if at:
                takes &= gpus[:, at] != gpus[:, at - 1]
            these = np.flatnonzero(takes)
            if len(these):
                was = gpus[these, at]
                after = self._mix.after(was, np.full_like(was, column))
                yield these, was[:, None], after[:, None], was, self._table.surplus[was, column]

    def _laid_out(self, gpus: Ints, column: int, count: int) -> _Way:
        """Part by part where it wastes least, the fullest of those; see ``several``."""
        now, every = gpus.copy(), np.arange(len(gpus))
        lies, extra = np.ones(len(gpus), np.bool_), np.zeros(len(gpus))
        for _ in range(count):
            self._open(now)
            room, after = self._table.room[now, column] > 0, self._table.after[now, column]
            surplus = self._table.surplus[now, column]
            chosen = self._least(now, after, room, surplus)
            lies &= room[every, chosen]
            there, taken = np.flatnonzero(lies), chosen[lies]
            was = now[there, taken]
            extra[there] += surplus[there, taken]
            now[there, taken] = self._mix.after(was, np.full_like(was, column))
        these = np.flatnonzero(lies)
        self._open(now[these])
        return these, gpus[these], now[these], np.zeros(len(these), np.int64), extra[these]

    def _least(self, now: Ints, after: Ints, room: Flags, surplus: Floats) -> Ints:
        """By host the GPU with the least loss, of those the fullest, of those the first state."""
        mix = self._mix
        loss = mix.waste[after] - mix.waste[now] - mix.worth[after] + mix.worth[now] + surplus
        among = room
        for each in (loss, mix.free[now], now):
            key = np.where(among, each, np.inf)
            among = among & (key == key.min(axis=1, keepdims=True))
        found: Ints = among.argmax(axis=1)
        return found

    def _open(self, rows: Ints) -> None:
        self._table.open_rows(np.unique(rows).tolist())
        self._mix.catch_up()
