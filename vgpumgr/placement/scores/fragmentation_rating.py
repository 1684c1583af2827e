"""Ratings of hosts by least waste: one request type on many hosts, or all types on one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from vgpumgr.placement.scores.fragmentation import MixRows, cutting, leftover
from vgpumgr.placement.scores.host_outcomes import HostRoom, Outcomes, OutcomeTable
from vgpumgr.placement.scores.score_plane import NEVER, Scores, masked, one_by_one
from vgpumgr.placement.tables.gpu_states import MILLI, StateTable
from vgpumgr.placement.tables.host_table import HostRows
from vgpumgr.placement.tables.request_types import Flags, Floats, Ints, RequestTypes

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


class TypeRater:
    """``can_rate`` [types]: those with parts of one kind at most and without huge pages."""

    def __init__(
        self, hosts: HostRows, table: StateTable, wants: RequestTypes, mix: MixRows, room: HostRoom
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


_REMEMBERED = 192


class FragmentationRater:
    """See ``Rater``. Numbers are double, so that the same host gets the same score on any way."""

    def __init__(
        self, hosts: HostRows, table: StateTable, wants: RequestTypes, mix: MixRows
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._wants = wants
        self._mix = mix
        self._room = HostRoom(hosts, wants, table)
        self._by_type = TypeRater(hosts, table, wants, mix, self._room)
        self._deriving = OutcomeTable(wants, table, mix)
        self._known: dict[Hashable, Outcomes] = {}

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        found = self._outcomes(number)
        fits, strays = self._room.on(number)
        scores, choices = np.full(len(fits), NEVER), self._choices(number, found)
        for first, end in pairwise(found.runs):
            types = found.types[first:end]
            scores[types] = np.maximum(scores[types], choices[first:end])
        scores[scores == NEVER] = UNKNOWN
        return masked(scores - strays * STRAYS, fits)

    def rate_many(self, hosts: Ints) -> Scores:
        """Type by type where that can be done and there are fewer of them than hosts."""
        wants = self._wants
        scores = np.empty((len(wants.demands), len(hosts)))
        by_type = self._by_type.can_rate
        if by_type.sum() >= len(hosts):
            by_type = np.zeros_like(by_type)
        if by_type.any():
            scores[by_type] = self._by_type.rate(np.flatnonzero(by_type).tolist(), hosts)
        rest = np.flatnonzero(~by_type)
        if len(rest):
            only = RequestTypes(self._table)
            only.add([wants.demands[number] for number in rest.tolist()])
            rater = FragmentationRater(self._hosts, self._table, only, self._mix)
            scores[rest] = one_by_one(rater, len(rest), hosts)
        return scores

    def ways(self, number: int, host: int) -> tuple[list[int], list[float]]:
        """States of a host's GPUs that a type of one part may take, and what each would score."""
        return self._by_type.ways(number, host)

    def _outcomes(self, number: int) -> Outcomes:
        """What the types would make of this host's GPUs."""
        gpus = np.sort(self._hosts.rows[number])
        key = gpus.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._deriving.of(gpus)
        return found

    def _choices(self, number: int, found: Outcomes) -> Floats:
        """The score of each choice on a host."""
        hosts, wants, mix = self._hosts, self._wants, self._mix
        cpu, memory = hosts.cpu[number], hosts.memory[number]
        left = cpu - wants.cpu[found.types]
        open_to = mix.open_to(left, memory - wants.memory[found.types])
        useful = np.einsum("cm,cm->c", open_to, found.useful[found.results])
        # The same kernel as for many hosts, for the same last bit.
        before = np.einsum("m,m->", mix.open_to(cpu, memory), found.useful[0])
        freed = found.free[0] - found.free[found.results]
        gain = useful - before + found.worth[found.results] + freed - found.surplus
        return scored(hosts, mix, gain, found.idle[found.results], left, found.rows)
