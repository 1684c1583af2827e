"""Hosts that fit one demand, best first, kept current by re-scoring only hosts that changed."""

from __future__ import annotations

import heapq
from itertools import chain

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
        self._refused: dict[int, tuple[int, tuple[Reason, ...]]] = {}
        self._reasons: tuple[Reason, ...] | None = None
        self._may = {host.order for host in fleet.hosts if all(map(host.makers, demand.kinds))}
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
        """Why no host fits; worked out anew only for hosts that changed."""
        self._catch_up()
        if self._reasons is None:
            refused = map(self._refusals, self._fleet.hosts)
            self._reasons = tuple(chain.from_iterable(refused))
        return self._reasons

    def _refusals(self, host: HostState) -> tuple[Reason, ...]:
        version, reasons = self._refused.get(host.order, (-1, ()))
        if version != host.version:
            reasons = refusals(host, self._demand)
            self._refused[host.order] = host.version, reasons
        return reasons

    def _catch_up(self) -> None:
        changed = set(self._fleet.changes[self._seen :])
        if changed:
            self._seen = len(self._fleet.changes)
            self._reasons = None
            for order in changed:
                self._weigh(self._fleet.hosts[order])

    def _weigh(self, host: HostState) -> None:
        fit = find_fit(host, self._demand) if host.order in self._may else None
        if fit is not None:
            heapq.heappush(self._heap, (fit.score, host.order, host.version, fit))
