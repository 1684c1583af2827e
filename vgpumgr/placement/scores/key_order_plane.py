"""The score planes of ``breadth-first`` and ``depth-first``, exact by whole keys.

The matrix holds the head of each key, or less: it never puts a host too low. Hosts at the top
are compared by their whole keys, and only where a whole key may still lose against the next in
line is that looked at too.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.fit.host_fit import Fit, find_fit
from vgpumgr.placement.fit.policy_keys import BREADTH, packed_key
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.scores.score_plane import NEVER, Plane, Scores, masked, one_by_one
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRoom, HostRows
from vgpumgr.placement.tables.request_types import Ints, RequestTypes

_OFF_NODE = float(1 << 50)
_BROKEN = float(1 << 42)
_VAGUE = -float(1 << 51)


class KeyOrderRater:
    """See ``Rater``. Scores are packed heads of keys, negative: never lower than the whole key."""

    def __init__(
        self,
        hosts: HostRows,
        table: StateTable,
        request_types: RequestTypes,
        policy: PlacementPolicy,
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._request_types = request_types
        self._policy = policy
        self._room = HostRoom(hosts, request_types, table)
        self._vague = np.array([vague(demand) for demand in request_types.demands], np.bool_)
        self._known: dict[Hashable, Scores] = {}

    def rate(self, number: int) -> Scores:
        """The scores of one host, by type."""
        heads = self._of_gpus(np.sort(self._hosts.rows[number]))
        fits, off_node = self._room.on(number)
        return masked(-(heads + off_node * _OFF_NODE), fits)

    def rate_many(self, hosts: Ints) -> Scores:
        """[types × hosts] the scores of these hosts."""
        return one_by_one(self, len(self._request_types.demands), hosts)

    def _of_gpus(self, gpus: Ints) -> Scores:
        key = gpus.tobytes()
        if key not in self._known:
            self._known[key] = self._heads_on(gpus)
        return self._known[key]

    def _heads_on(self, gpus: Ints) -> Scores:
        """By type the head of the best GPU's key."""
        request_types = self._request_types
        states = np.unique(gpus[gpus != NOTHING])
        self._table.open_rows(states.tolist())
        heads = np.zeros(len(request_types.demands))
        if len(states):
            keys = self._table.packed_keys[self._policy][
                states[:, None], request_types.columns[None, :, 0]
            ]
            heads = np.where(request_types.has_parts, keys.min(axis=0), 0.0)
        return np.where(self._vague, _VAGUE, heads)


def head(policy: PlacementPolicy, demand: Demand, fit: Fit) -> float:
    """The head of a fit's whole key, as the rater would put it if it knew."""
    misses, (broken, *keys), _ = fit.score
    if vague(demand):
        return misses * _OFF_NODE + _VAGUE
    key = packed_key(policy, keys[0]) if keys else 0.0
    return misses * _OFF_NODE + broken[0] * _BROKEN + key


def vague(demand: Demand) -> bool:
    """Whether the best GPU by itself says too little of the key."""
    sized = any(not kind.profile for kind in demand.kinds)
    return sized or len(demand.kinds) > 1 or demand.vgpus > 1


class KeyOrderPlane(Plane):
    """The best host of a row by the whole key; equal keys go by the order of the hosts."""

    def __init__(
        self, hosts: HostRows, filters: HostFilters, table: StateTable, policy: PlacementPolicy
    ) -> None:
        super().__init__(hosts, filters, table)
        self._policy = policy
        self._fits: dict[int, dict[int, tuple[int, Fit | None]]] = {}

    def rater(self, request_types: RequestTypes) -> KeyOrderRater:
        """A rater for these types."""
        return KeyOrderRater(self.hosts, self.table, request_types, self._policy)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order."""
        super().reorder(order)
        self._fits.clear()

    def best(self, number: int) -> Fit | None:
        """Where a VM of type ``number`` goes."""
        row = self.scores[number]
        while (top := row.max(initial=NEVER)) > NEVER:
            tied = np.flatnonzero(row == top)
            fit = self._simple(number, tied) or self._compared(number, tied, -float(top))
            if fit is not None:
                return fit
        return None

    def _simple(self, number: int, tied: Ints) -> Fit | None:
        """For one part by name the head is all there is of the GPU's key: hosts decide."""
        demand, hosts = self.request_types.demands[number], self.hosts
        if demand.parts > 1 or vague(demand) or hosts.intricate[tied].any():
            return None
        sign = -1 if self._policy is BREADTH else 1
        for amount in (hosts.units, hosts.memory, hosts.cpu):
            key = sign * amount[tied]
            tied = tied[key == key.min()]
        return find_fit(hosts.states[tied[0]], demand)

    def _compared(self, number: int, tied: Ints, top: float) -> Fit | None:
        """The best of these by the whole key; hosts that were put too high are put right."""
        row, demand, fits = self.scores[number], self.request_types.demands[number], []
        for host in tied.tolist():
            fit = self._fit(number, host)
            own = np.inf if fit is None else head(self._policy, demand, fit)
            if fit is None or own > top:
                row[host] = -own
            else:
                fits.append(fit)
        return min(fits, key=lambda fit: fit.score, default=None)

    def _fit(self, number: int, host: int) -> Fit | None:
        """Looked for once as long as the host does not change."""
        state, known = self.hosts.states[host], self._fits.setdefault(number, {})
        version, fit = known.get(host, (-1, None))
        if version != state.version:
            fit = find_fit(state, self.request_types.demands[number])
            known[host] = state.version, fit
        return fit
