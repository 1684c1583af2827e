"""Decides where VMs go: ``Placer`` one after the other, ``place`` several requests at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.batch.batch_problem import Solver
from vgpumgr.placement.batch.neighbourhood_search import improved
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, group_key
from vgpumgr.placement.fit.host_fit import commit, proposal, release
from vgpumgr.placement.fit_explanation import FleetRefusals
from vgpumgr.placement.request_mix import FIRST_MIX, Mix, creatable, made_by
from vgpumgr.placement.resources.demand import Demand, PartKind, demand_of
from vgpumgr.placement.resources.host_state import FleetState
from vgpumgr.placement.scores.fragmentation import Fragmentation, Weighted
from vgpumgr.placement.scores.score_matrix import ScoreMatrix


def evenly(requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests in an order that spreads each type evenly from end to end.

    Number n of the c requests of a type is due at (n + ½) / c; the largest goes first where two
    are due at once. Requests of one type stay as given.
    """
    if len(requests) == 1:
        return [0]
    demands = [_digest(request) for request in requests]
    types: list[Hashable] = [group_key(demand) for demand in demands]
    totals, seen = Counter(types), Counter[Hashable]()
    due: list[tuple[float, int, int, int, int]] = []
    for index, (demand, kind) in enumerate(zip(demands, types, strict=True)):
        when = (seen[kind] + 0.5) / totals[kind]
        due.append((when, -demand.whole, -demand.parts, -demand.vcpus, index))
        seen[kind] += 1
    return [index for *_, index in sorted(due)]


def _digest(request: VmSpec) -> Demand:
    return demand_of(request, PlacementPolicy.CAPACITY_FIRST, founding=False)


def largest_first(fleet: Fleet, requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests by the most GPU units they can take; equal ones as given."""
    state = FleetState(fleet)
    units: dict[PartKind, int] = {}

    def size(index: int) -> tuple[int, int]:
        demand = state.digest(requests[index], PlacementPolicy.BREADTH_FIRST)
        for kind in demand.kinds:
            if kind not in units:
                units[kind] = _most_units(state, kind)
        wanted = sum(kind.count * units[kind] for kind in demand.kinds)
        return -demand.whole, -wanted

    return sorted(range(len(requests)), key=size)


def _most_units(state: FleetState, kind: PartKind) -> int:
    """Units of one part on the GPU where it takes the most."""
    makers = (gpu for host in state.hosts for gpu in host.makers(kind))
    return max((gpu.matching(kind)[0].units for gpu in makers), default=0)


_CAPACITY = PlacementPolicy.CAPACITY_FIRST


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
        self._matrix.update(host, labels_changed=bool(placed.request.labels))

    def release(self, placed: Placed) -> None:
        """Give back what ``commit`` of the same value took."""
        host = self._hosts[placed.host]
        demand = self._demand(placed.request)
        release(self._state, host, placed, demand)
        self._matrix.count(demand, host, -1)
        self._matrix.update(host, labels_changed=bool(placed.request.labels))

    def block(self, host: str, why: str) -> None:
        """From now on the host takes no VM: ``why`` is the sentence that refusals give.

        Empty: it does again. What is held there stays held. Raises KeyError for an unknown host.
        """
        state = self._hosts[host]
        state.block(why)
        self._matrix.refilter(state)

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
    def state(self) -> FleetState:
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
        return replace(self._demand(request), policy=_CAPACITY)


def _order(hosts: int, seed: int | None) -> list[int]:
    if seed is None:
        return list(range(hosts))
    order: list[int] = np.random.default_rng(seed).permutation(hosts).tolist()
    return order


Decisions = dict[int, Decision]
"""By position, in the order in which they were made: a VM may live in what one before it makes."""


def place(
    fleet: Fleet,
    requests: Sequence[VmSpec],
    policy: PlacementPolicy,
    *,
    kept: Sequence[VmSpec] = (),
    taken: Sequence[Placed] = (),
    mix: Mix | None = None,
    plan: CapacityPlan | None = None,
    solver: Solver | None = None,
) -> tuple[Decision, ...]:
    """Decide every request; decisions come in the order of ``requests``.

    Requests are placed in the order given, with ``capacity-first`` each type spread evenly
    over it (``evenly``). When some do not fit, all are tried once more with the largest first
    (whole GPUs, then by units), and that outcome is taken only if it places more VMs. A request's
    own policy wins over ``policy``. What is ``taken`` was decided before, in this order, and is
    used up first; then VMs of ``kept`` (bookings) take their places, as far as
    they find one, and all requests go beside them. ``mix`` and ``plan`` matter to
    ``capacity-first`` alone (see ``Placer``); without a mix ten requests and more are one
    themselves. Where some still do not fit, ``solver`` (see
    ``batch``) is asked for a way to place more, if every request goes by ``capacity-first``
    and nothing is kept or taken. The same input gives the same decisions, as long as the solver
    does.
    """
    if mix is None and any((each.policy or policy) is _CAPACITY for each in requests):
        mix = _mix_of(fleet, [*kept, *requests])

    def empty() -> Placer:
        return _beside(Placer(fleet, policy, mix=mix, plan=plan), kept, taken)

    found = _one_by_one(fleet, requests, policy, empty)
    if solver is not None and not (kept or taken) and _may_be_solved(requests, found, policy):
        places = improved(fleet, requests, found, solver)
        if len(places) > _placed(found):
            found = _completed(empty(), requests, places)
    return tuple(found[index] for index in range(len(requests)))


def _mix_of(fleet: Fleet, requests: Sequence[VmSpec]) -> Mix | None:
    """What an order says of what is expected; None where it is short."""
    made = made_by(fleet, requests) if len(requests) >= FIRST_MIX else []
    return Mix.of(made) if len(made) >= FIRST_MIX else None


def _one_by_one(
    fleet: Fleet,
    requests: Sequence[VmSpec],
    policy: PlacementPolicy,
    placer: Callable[[], Placer],
) -> Decisions:
    """In the better one of two orders, each by a ``placer`` of its own."""
    bulk = policy is _CAPACITY and len(requests) > 1
    order = evenly(requests) if bulk else list(range(len(requests)))
    found = _in_order(placer(), requests, order)
    if _placed(found) == len(requests):
        return found
    other = largest_first(fleet, requests)
    if other == order:
        return found
    again = _in_order(placer(), requests, other)
    return again if _placed(again) > _placed(found) else found


def _may_be_solved(requests: Sequence[VmSpec], found: Decisions, policy: PlacementPolicy) -> bool:
    """Several are asked for, some do not fit, and no policy says how GPUs are to be filled."""
    filled = any((request.policy or policy) is not _CAPACITY for request in requests)
    return len(requests) > 1 and _placed(found) < len(requests) and not filled


def _completed(
    placer: Placer, requests: Sequence[VmSpec], places: Mapping[int, Placed]
) -> Decisions:
    """These places, and for the rest of the requests what is left, or why nothing is."""
    for placed in places.values():
        placer.commit(placed)
    rest = [index for index in range(len(requests)) if index not in places]
    return {**places, **_in_order(placer, requests, rest)}


def _beside(placer: Placer, kept: Sequence[VmSpec], taken: Sequence[Placed]) -> Placer:
    for placed in taken:
        placer.commit(placed)
    for request in kept:
        decision = placer.decide(request, explain=False)
        if isinstance(decision, Placed):
            placer.commit(decision)
    return placer


def _in_order(placer: Placer, requests: Sequence[VmSpec], order: Sequence[int]) -> Decisions:
    """The last decision is not committed: nothing is decided after it."""
    decisions: Decisions = {}
    for index in order:
        decision = decisions[index] = placer.decide(requests[index])
        if isinstance(decision, Placed) and index != order[-1]:
            placer.commit(decision)
    return decisions


def _placed(decisions: Decisions) -> int:
    return sum(isinstance(decision, Placed) for decision in decisions.values())
