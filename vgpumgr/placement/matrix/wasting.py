"""Rates hosts by how much less waste a placement leaves, in thousandths of a GPU."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.outcomes import Outcomes, outcomes
from vgpumgr.placement.matrix.plane import NEVER, Scores, masked, one_by_one
from vgpumgr.placement.matrix.room import Room
from vgpumgr.placement.matrix.wants import Floats, Ints, Wants
from vgpumgr.placement.policies.fragmentation import cutting, leftover
from vgpumgr.placement.table.states import MILLI, StateTable

_REMEMBERED = 192

_STRAYS = 1e6
"""With ``numa: prefer`` a VM on one node beats any that is not, on whatever host."""

_UNKNOWN = -MILLI
"""Several parts may fit in a way that was not thought of: the exact fit will look for it."""

_AT_ONCE = 1024
_FEW = 4


class WasteRater:
    """See ``Rater``. Numbers are double, so that the same host gets the same score on any way."""

    def __init__(self, hosts: HostRows, table: StateTable, wants: Wants, mix: MixRows) -> None:
        self._hosts = hosts
        self._table = table
        self._wants = wants
        self._mix = mix
        self._room = Room(hosts, wants, table)
        self._known: dict[Hashable, Outcomes] = {}

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        found = self.outcomes(number)
        fits, strays = self._room.on(number, found.has_room)
        scores = np.full(len(fits), _UNKNOWN)
        choices = self.choices(number, found, found.types, found.results, found.rows)
        if len(choices):
            scores[found.chosen] = np.maximum.reduceat(choices, found.first)
        return masked(scores - strays * _STRAYS, fits)

    def rate_many(self, hosts: Ints) -> Scores:
        """Type by type for few types, none of several parts, on hosts without NUMA nodes."""
        wants = self._wants
        many = len(wants.demands) > _FEW or len(wants.several) > 0
        if many or self._hosts.has_nodes or self._mix.valued:
            return one_by_one(self, len(wants.demands), hosts)
        self._table.open_rows(np.unique(self._hosts.rows[hosts]).tolist())
        self._mix.catch_up()
        scores = np.empty((len(wants.demands), len(hosts)))
        for number in range(len(wants.demands)):
            for first in range(0, len(hosts), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                scores[number, some] = self._on_many(number, hosts[some])
        return scores

    def outcomes(self, number: int) -> Outcomes:
        """What the types would make of this host's GPUs."""
        gpus = np.sort(self._hosts.rows[number])
        key = gpus.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._mix.catch_up()
            has_room = self._room.parts(gpus)
            found = outcomes(gpus, has_room, self._wants, self._table, self._mix)
            self._known[key] = found
        return found

    def choices(
        self, number: int, found: Outcomes, types: Ints, results: Ints, rows: Ints
    ) -> Floats:
        """The score of each choice on a host."""
        hosts, wants, mix = self._hosts, self._wants, self._mix
        cpu, memory = hosts.cpu[number], hosts.memory[number]
        left = cpu - wants.cpu[types]
        open_to = mix.open_to(left, memory - wants.memory[types])
        useful = np.einsum("cm,cm->c", open_to, found.useful[results])
        before = mix.open_to(cpu, memory) @ found.useful[0]
        gain = useful - before + found.worth[results] + found.free[0] - found.free[results]
        return self._score(gain, found.idle[results], left, rows)

    def _score(self, gain: Floats, idle: Floats, left: Ints, rows: Ints) -> Floats:
        """``gain`` is by how much less is wasted."""
        hosts = self._hosts
        left_over = leftover(left / hosts.most_cpu, idle / (MILLI * hosts.width))
        score: Floats = gain - left_over - cutting(self._mix.idle[rows])
        return score

    def _on_many(self, number: int, some: Ints) -> Scores:
        """One type on many hosts: GPU by GPU, the best of each host."""
        hosts, wants, mix = self._hosts, self._wants, self._mix
        cpu, memory, rows = hosts.cpu[some], hosts.memory[some], hosts.rows[some]
        left = cpu - wants.cpu[number]
        fits = (left >= 0) & (memory >= wants.memory[number]) & ~wants.needs_nodes[number]
        open_to = mix.open_to(left, memory - wants.memory[number])
        room, useful = mix.room[rows].sum(axis=1), mix.useful[rows].sum(axis=1)
        free, idle = mix.free[rows].sum(axis=1), mix.idle[rows].sum(axis=1)
        held = np.where(room >= mix.need, useful, 0.0) * mix.weight
        before = np.einsum("hm,hm->h", mix.open_to(cpu, memory), held)
        if not wants.has_parts[number]:
            now = np.einsum("hm,hm->h", open_to, held)
            scores = self._score(now - before, idle, left, np.zeros_like(left))
            return masked(scores, fits)
        best = np.full(len(cpu), NEVER)
        column = int(wants.columns[number, 0])
        for at in range(hosts.width):
            was = rows[:, at]
            takes = fits & (self._table.room[was, column] > 0)
            if not takes.any():
                continue
            after = self._table.after[was, column]
            room_then = room + mix.room[after] - mix.room[was]
            useful_then = useful + mix.useful[after] - mix.useful[was]
            held = np.where(room_then >= mix.need, useful_then, 0.0) * mix.weight
            gain = np.einsum("hm,hm->h", open_to, held) - before + mix.worth[after] - mix.worth[was]
            gain += free - (free + mix.free[after] - mix.free[was])
            scores = self._score(gain, idle + mix.idle[after] - mix.idle[was], left, was)
            best = np.maximum(best, masked(scores, takes))
        return best
