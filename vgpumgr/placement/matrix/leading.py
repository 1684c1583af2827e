"""Rates hosts by the head of the key that breadth-first or depth-first gives them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.fit import Fit
from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.plane import Scores, masked, one_by_one
from vgpumgr.placement.matrix.room import Room
from vgpumgr.placement.matrix.wants import Ints, Wants
from vgpumgr.placement.table.leads import packed
from vgpumgr.placement.table.states import NOTHING, StateTable

_STRAYS = float(1 << 50)
_BROKEN = float(1 << 42)
_VAGUE = -float(1 << 51)


class HeadRater:
    """See ``Rater``. Scores are packed heads of keys, negative: never lower than the whole key."""

    def __init__(
        self, hosts: HostRows, table: StateTable, wants: Wants, policy: PlacementPolicy
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._wants = wants
        self._policy = policy
        self._room = Room(hosts, wants, table)
        self._vague = np.array([vague(demand) for demand in wants.demands], np.bool_)
        self._known: dict[Hashable, Scores] = {}

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        heads = self._of_gpus(np.sort(self._hosts.rows[number]))
        fits, strays = self._room.on(number)
        return masked(-(heads + strays * _STRAYS), fits)

    def rate_many(self, hosts: Ints) -> Scores:
        """[types × hosts] the scores of these hosts."""
        return one_by_one(self, len(self._wants.demands), hosts)

    def _of_gpus(self, gpus: Ints) -> Scores:
        key = gpus.tobytes()
        if key not in self._known:
            self._known[key] = self._heads_on(gpus)
        return self._known[key]

    def _heads_on(self, gpus: Ints) -> Scores:
        """By type the head of the best GPU's key."""
        wants = self._wants
        states = np.unique(gpus[gpus != NOTHING])
        self._table.open_rows(states.tolist())
        heads = np.zeros(len(wants.demands))
        if len(states):
            leads = self._table.lead[self._policy][states[:, None], wants.columns[None, :, 0]]
            heads = np.where(wants.has_parts, leads.min(axis=0), 0.0)
        return np.where(self._vague, _VAGUE, heads)


def head(policy: PlacementPolicy, demand: Demand, fit: Fit) -> float:
    """The head of a fit's whole key, as the rater would put it if it knew."""
    misses, (broken, *keys), _ = fit.score
    if vague(demand):
        return misses * _STRAYS + _VAGUE
    key = packed(policy, keys[0]) if keys else 0.0
    return misses * _STRAYS + broken[0] * _BROKEN + key


def vague(demand: Demand) -> bool:
    """Whether the best GPU by itself says too little of the key."""
    sized = any(not kind.profile for kind in demand.kinds)
    return sized or len(demand.kinds) > 1 or demand.vgpus > 1
