"""Hosts that fit one demand, best first, kept current by re-scoring only hosts that changed."""

from __future__ import annotations

import heapq

from vgpumgr.model.placement import Reason
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.explain import refusals
from vgpumgr.placement.fit import Fit, Score, find_fit
from vgpumgr.placement.state import FleetState, HostState


class Candidates:
    """A heap of fits. An entry is stale once its host's version has moved on."""

    def __init__(self, fleet: FleetState, demand: Demand) -> None:
        self._fleet = fleet
        self._demand = demand
        self._heap: list[tuple[Score, int, int, Fit]] = []
        self._seen = len(fleet.changes)
        self._reasons: tuple[Reason, ...] | None = None
        for host in fleet.hosts:
            self._weigh(host)

    def best(self) -> Fit | None:
        """The best fit in the fleet as it is now."""
        self._catch_up()
        while self._heap:
            _, _, version, fit = self._heap[0]
            if version == fit.host.version:
                return fit
            heapq.heappop(self._heap)
        return None

    def reasons(self) -> tuple[Reason, ...]:
        """Why no host fits; worked out once while nothing changes."""
        self._catch_up()
        if self._reasons is None:
            hosts = self._fleet.hosts
            self._reasons = tuple(r for host in hosts for r in refusals(host, self._demand))
        return self._reasons

    def _catch_up(self) -> None:
        changed = set(self._fleet.changes[self._seen :])
        if changed:
            self._seen = len(self._fleet.changes)
            self._reasons = None
            for order in changed:
                self._weigh(self._fleet.hosts[order])

    def _weigh(self, host: HostState) -> None:
        fit = find_fit(host, self._demand)
        if fit is not None:
            heapq.heappush(self._heap, (fit.score, host.order, host.version, fit))
