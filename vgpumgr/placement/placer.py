"""Decisions over a fleet that changes: what VMs take is used up, what they leave comes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vgpumgr.model.placement import Decision, Fleet, NotPlaced, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.explain import Refusals
from vgpumgr.placement.gauge import Fragmentation
from vgpumgr.placement.matrix.matrix import Matrix
from vgpumgr.placement.matrix.mixed import Weighted
from vgpumgr.placement.mix import Mix, creatable
from vgpumgr.placement.plan import Plan
from vgpumgr.placement.state import FleetState
from vgpumgr.placement.taking import commit, proposal, release

_LEAST = PlacementPolicy.LEAST_FRAGMENTATION


class Placer:
    """Decides requests one after the other. Deterministic; not thread-safe; no I/O, no clock.

    ``mix`` is what fragmentation is measured against; None: all that the fleet can make, alike.
    ``plan`` adds soft quotas per class of hosts. ``values`` weighs MIG and same-size GPUs by what
    pools of them will lose later; that takes up to a second per kind of board, once. Equal choices
    go by the order of the fleet, or with ``seed`` by a permutation of it; names never matter.
    Raises ValueError for a policy that is none.
    """

    def __init__(
        self,
        fleet: Fleet,
        policy: PlacementPolicy,
        *,
        mix: Mix | None = None,
        plan: Plan | None = None,
        seed: int | None = None,
        values: bool = False,
    ) -> None:
        self._fleet = fleet
        self._mix = mix
        self._state = FleetState(fleet)
        self._policy = PlacementPolicy(policy)
        self._hosts = {host.name: host for host in self._state.hosts}
        order = _order(len(fleet.hosts), seed)
        self._matrix = Matrix(self._state, order, self._weighted, valued=values)
        self._refusals = Refusals(self._state)
        if plan is not None:
            self._matrix.adopt(plan)

    def decide(self, request: VmSpec, *, explain: bool = True) -> Decision:
        """Where the VM would go; nothing is used up. Without ``explain`` a no has no reasons."""
        demand = self._demand(request)
        fit = self._matrix.best(demand)
        if fit is not None:
            return proposal(fit, request, demand)
        return NotPlaced(request=request, reasons=self._refusals.of(demand) if explain else ())

    def commit(self, placed: Placed) -> None:
        """Use up what ``placed`` takes; it must have been decided on the supply as it is now."""
        host = self._hosts[placed.host]
        demand = self._demand(placed.request)
        commit(self._state, host, placed, demand)
        self._matrix.count(demand, host, 1)
        self._matrix.update(host)

    def release(self, placed: Placed) -> None:
        """Give back what ``commit`` of the same value took."""
        host = self._hosts[placed.host]
        demand = self._demand(placed.request)
        release(self._state, host, placed, demand)
        self._matrix.count(demand, host, -1)
        self._matrix.update(host)

    def adopt_plan(self, plan: Plan | None) -> None:
        """Go by a newer plan from now on, none of its quotas used up yet; None: by none."""
        self._matrix.adopt(plan)

    def fragmentation(self) -> Fragmentation:
        """How much of what is free now is of no use to the mix, host by host and in all."""
        return Fragmentation(hosts=self._matrix.fragmentation())

    def _demand(self, request: VmSpec) -> Demand:
        return self._state.digest(request, self._policy)

    def _weighted(self) -> list[Weighted]:
        mix = self._mix or creatable(self._fleet)
        common = [Weighted(self._typical(request), weight) for request, weight in mix.requests]
        return [*common, *(Weighted(self._typical(request), 0.0) for request in mix.rare)]

    def _typical(self, request: VmSpec) -> Demand:
        return replace(self._demand(request), policy=_LEAST)


def _order(hosts: int, seed: int | None) -> list[int]:
    if seed is None:
        return list(range(hosts))
    order: list[int] = np.random.default_rng(seed).permutation(hosts).tolist()
    return order
