"""Decisions over a fleet that changes: what VMs take is used up, what they leave comes back."""

from __future__ import annotations

from collections.abc import Collection
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
    ``plan`` adds soft quotas per class of hosts. ``values``: GPUs in mixed-size mode are weighed
    by the starts that are left free, and where there is a mix, those in MIG by what a pool of them
    will lose later (up to a second of CPU per kind of board, whenever a mix is adopted), neither by
    waste. Equal choices go by the order of the fleet, or with ``seed``
    by a permutation of it; names never matter. ``fleet`` stays as it was given.
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
        values: bool = True,
    ) -> None:
        self.fleet = fleet
        self._mix = mix
        self._state = FleetState(fleet)
        self._policy = PlacementPolicy(policy)
        self._hosts = {host.name: host for host in self._state.hosts}
        order = _order(len(fleet.hosts), seed)
        known = mix is not None
        self._matrix = Matrix(self._state, order, self._weighted, valued=values, known=known)
        self._refusals = Refusals(self._state)
        if plan is not None:
            self._matrix.adopt(plan)

    def decide(
        self, request: VmSpec, *, explain: bool = True, avoid: Collection[str] = ()
    ) -> Decision:
        """Where the VM would go; nothing is used up. Without ``explain`` a no has no reasons.

        ``avoid`` are names of hosts that are left out this time; reasons do not speak of it.
        """
        demand = self._demand(request)
        fit = self._matrix.best(demand, [self._hosts[name].order for name in avoid])
        if fit is not None:
            return proposal(fit, request, demand)
        return NotPlaced(request=request, reasons=self._refusals.of(demand) if explain else ())

    def commit(self, placed: Placed) -> None:
        """Use up what ``placed`` takes; it must have been decided on the supply as it is now."""
        host = self._hosts[placed.host]
        demand = self._demand(placed.request)
        commit(self._state, host, placed, demand)
        self._matrix.count(demand, host, 1)
        self._matrix.update(host, company=bool(placed.request.labels))

    def release(self, placed: Placed) -> None:
        """Give back what ``commit`` of the same value took."""
        host = self._hosts[placed.host]
        demand = self._demand(placed.request)
        release(self._state, host, placed, demand)
        self._matrix.count(demand, host, -1)
        self._matrix.update(host, company=bool(placed.request.labels))

    def block(self, host: str, why: str) -> None:
        """From now on the host takes no VM: ``why`` is the sentence that refusals give.

        Empty: it does again. What is held there stays held. Raises KeyError for an unknown host.
        """
        state = self._hosts[host]
        state.block(why)
        self._matrix.restand(state)

    def adopt_mix(self, mix: Mix) -> None:
        """Measure fragmentation against a newer mix from now on: every host is scored anew."""
        self._mix = mix
        self._matrix.expect()

    def adopt_plan(self, plan: Plan | None, *, of_what_is_free: bool = False) -> None:
        """Go by a newer plan for ``fleet``, the fleet as it was given; None: by none.

        What is held of what was committed since counts against the plan's quotas;
        ``of_what_is_free``: the plan is for what is left now, so only what comes counts.
        """
        self._matrix.adopt(plan, anew=of_what_is_free)

    def rate_ahead(self) -> None:
        """Rate every host for every type of the mix now, not for each when it first comes.

        Worth it where many decisions follow; up to seconds for tens of thousands of hosts.
        """
        self._matrix.rate_ahead()

    @property
    def standing(self) -> FleetState:
        """What is left now, to be looked at."""
        return self._state

    def fragmentation(self) -> Fragmentation:
        """How much of what is free now is of no use to the mix, host by host and in all."""
        return Fragmentation(hosts=self._matrix.fragmentation())

    def _demand(self, request: VmSpec) -> Demand:
        return self._state.digest(request, self._policy)

    def _weighted(self) -> list[Weighted]:
        mix = self._mix or creatable(self.fleet)
        common = [Weighted(self._typical(request), weight) for request, weight in mix.requests]
        return [*common, *(Weighted(self._typical(request), 0.0) for request in mix.rare)]

    def _typical(self, request: VmSpec) -> Demand:
        return replace(self._demand(request), policy=_LEAST)


def _order(hosts: int, seed: int | None) -> list[int]:
    if seed is None:
        return list(range(hosts))
    order: list[int] = np.random.default_rng(seed).permutation(hosts).tolist()
    return order
