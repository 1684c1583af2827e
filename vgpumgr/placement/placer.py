"""The placer: decisions over a changing fleet, and its request mix and plan learned on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan.plan_maker import FEWEST, make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan
from vgpumgr.placement.fit.host_fit import commit, proposal, release
from vgpumgr.placement.fit_explanation import FleetRefusals
from vgpumgr.placement.request_mix import Mix, creatable
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState
from vgpumgr.placement.scores.fragmentation import Fragmentation, Weighted
from vgpumgr.placement.scores.score_matrix import ScoreMatrix

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
        plan: CapacityPlan | None = None,
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
        self._matrix = ScoreMatrix(self._state, order, self._weighted, valued=values, known=known)
        self._refusals: FleetRefusals | None = None
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
        if not explain:
            return NotPlaced(request=request, reasons=())
        self._refusals = self._refusals or FleetRefusals(self._state)
        return NotPlaced(request=request, reasons=self._refusals.of(demand))

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

    def adopt_plan(self, plan: CapacityPlan | None, *, of_what_is_free: bool = False) -> None:
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


# What has been asked for tells what will be. A newer mix is adopted when twice as much is known as
# the one before it was made of, and a newer plan likewise: seldom, and the more seldom the less
# there is to learn. Nothing here depends on what is asked for.


FIRST_MIX = 10
"""Requests before the first mix: fewer tell less than what the fleet can make."""

REMEMBERED = 20_000
"""Requests of which mix and plan are made: the latest. Older ones are of another time."""


class RequestLearner:
    """Keeps one Placer's mix and plan in step with what is asked for. No I/O, no clock, no threads.

    ``history`` is what was asked for before, the oldest first: its mix is adopted at once, and its
    plan is due. Without one, the Placer's own mix serves for the first ten requests.
    """

    def __init__(self, placer: Placer, history: Iterable[VmSpec] = ()) -> None:
        self._placer = placer
        self._seen = deque(history, maxlen=REMEMBERED)
        self._mix = _Doubling(FIRST_MIX)
        self._plan = _Doubling(FEWEST)
        self._note(len(self._seen))

    def see(self, request: VmSpec) -> None:
        """Note a request, once, when it comes; placed or not makes no difference.

        Where a newer mix is due it is adopted here: the next decision scores every host anew.
        """
        self._seen.append(request)
        self._note(1)

    def due(self) -> Callable[[], CapacityPlan | NoPlan] | None:
        """The making of a newer plan, when one is due; each is given out once.

        It takes seconds and touches nothing of the Placer: call it in a thread, or (it can be
        pickled) in a process, and ``adopt`` what it returns.
        """
        if not self._plan.take():
            return None
        return partial(make_plan, self._placer.fleet, tuple(self._seen))

    def adopt(self, plan: CapacityPlan | NoPlan) -> None:
        """Go by this plan; where none could be made, by the one there is."""
        if isinstance(plan, CapacityPlan):
            self._placer.adopt_plan(plan)

    def catch_up(self) -> None:
        """Make the plan that is due here and now, and adopt it; nothing where none is."""
        if make := self.due():
            self.adopt(make())

    def _note(self, count: int) -> None:
        self._mix.add(count)
        self._plan.add(count)
        if self._mix.take():
            self._placer.adopt_mix(Mix.of(self._seen))


class _Doubling:
    """Due at ``first`` requests, then whenever as many have come as were known the last time."""

    def __init__(self, first: int) -> None:
        self._need = first
        self._known = 0
        self._new = 0

    def add(self, count: int) -> None:
        self._new += count

    def take(self) -> bool:
        """Whether it is due; asked again, it no longer is."""
        if self._new < self._need:
            return False
        self._known = self._need = min(self._known + self._new, REMEMBERED)
        self._new = 0
        return True
