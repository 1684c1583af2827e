"""The planes of ``breadth-first`` and ``depth-first``: exact, by keys that are compared in full.

The matrix holds the head of each key, or less: it never puts a host too low. Hosts at the top are
compared by their whole keys, and only where a whole key may still lose against the next in line
is that looked at too.
"""

from __future__ import annotations

import numpy as np

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.fit import Fit, find_fit
from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.leading import HeadRater, head, vague
from vgpumgr.placement.matrix.plane import NEVER, Plane
from vgpumgr.placement.matrix.standing import Standing
from vgpumgr.placement.matrix.wants import Ints, Wants
from vgpumgr.placement.table.leads import BREADTH
from vgpumgr.placement.table.states import StateTable


class LeadPlane(Plane):
    """The best host of a row by the whole key; equal keys go by the order of the hosts."""

    def __init__(
        self, hosts: HostRows, standing: Standing, table: StateTable, policy: PlacementPolicy
    ) -> None:
        super().__init__(hosts, standing, table)
        self._policy = policy
        self._fits: dict[int, dict[int, tuple[int, Fit | None]]] = {}

    def rater(self, wants: Wants) -> HeadRater:
        """A rater for these types."""
        return HeadRater(self.hosts, self.table, wants, self._policy)

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
        demand, hosts = self.wants.demands[number], self.hosts
        if demand.parts > 1 or vague(demand) or hosts.intricate[tied].any():
            return None
        sign = -1 if self._policy is BREADTH else 1
        for amount in (hosts.units, hosts.memory, hosts.cpu):
            key = sign * amount[tied]
            tied = tied[key == key.min()]
        return find_fit(hosts.states[tied[0]], demand)

    def _compared(self, number: int, tied: Ints, top: float) -> Fit | None:
        """The best of these by the whole key; hosts that were put too high are put right."""
        row, demand, fits = self.scores[number], self.wants.demands[number], []
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
            fit = find_fit(state, self.wants.demands[number])
            known[host] = state.version, fit
        return fit
