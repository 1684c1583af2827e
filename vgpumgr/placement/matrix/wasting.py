"""Rates hosts by how much less waste a placement leaves, in thousandths of a GPU."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from vgpumgr.placement.matrix.by_type import STRAYS, UNKNOWN, ByType, scored
from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.outcomes import Deriving, Outcomes
from vgpumgr.placement.matrix.plane import NEVER, Scores, masked, one_by_one
from vgpumgr.placement.matrix.room import Room
from vgpumgr.placement.matrix.wants import Floats, Ints, Wants
from vgpumgr.placement.table.states import StateTable

_REMEMBERED = 192


class WasteRater:
    """See ``Rater``. Numbers are double, so that the same host gets the same score on any way."""

    def __init__(self, hosts: HostRows, table: StateTable, wants: Wants, mix: MixRows) -> None:
        self._hosts = hosts
        self._table = table
        self._wants = wants
        self._mix = mix
        self._room = Room(hosts, wants, table)
        self._by_type = ByType(hosts, table, wants, mix, self._room)
        self._deriving = Deriving(wants, table, mix)
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
            only = Wants(self._table)
            only.add([wants.demands[number] for number in rest.tolist()])
            rater = WasteRater(self._hosts, self._table, only, self._mix)
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
