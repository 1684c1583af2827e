"""Place requests one after the other; each placed VM uses up supply for the next ones."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.placement import Decision, Fleet, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.bulk import evenly
from vgpumgr.placement.demand import Kind
from vgpumgr.placement.mix import Mix
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.plan import Plan
from vgpumgr.placement.state import FleetState


def place(
    fleet: Fleet,
    requests: Sequence[VmSpec],
    policy: PlacementPolicy,
    *,
    mix: Mix | None = None,
    plan: Plan | None = None,
) -> tuple[Decision, ...]:
    """Decide every request; decisions come in the order of ``requests``.

    Requests are placed in the order given, with ``least-fragmentation`` each type spread evenly
    over it (see ``bulk.py``). When some do not fit, all are tried once more with the largest first
    (whole GPUs, then by units), and that outcome is taken only if it places more VMs. A request's
    own policy wins over ``policy``; ``mix`` and ``plan`` matter to ``least-fragmentation`` alone
    (see ``Placer``). The same input gives the same decisions.
    """
    least = policy is PlacementPolicy.LEAST_FRAGMENTATION
    order = evenly(requests) if least else list(range(len(requests)))
    decisions = _in_order(Placer(fleet, policy, mix=mix, plan=plan), requests, order)
    if _placed(decisions) == len(requests):
        return decisions
    largest_first = _largest_first(fleet, requests)
    if largest_first == order:
        return decisions
    again = _in_order(Placer(fleet, policy, mix=mix, plan=plan), requests, largest_first)
    return again if _placed(again) > _placed(decisions) else decisions


def _in_order(
    placer: Placer, requests: Sequence[VmSpec], order: Sequence[int]
) -> tuple[Decision, ...]:
    decisions: dict[int, Decision] = {}
    for index in order:
        decision = decisions[index] = placer.decide(requests[index])
        if isinstance(decision, Placed):
            placer.commit(decision)
    return tuple(decisions[index] for index in range(len(requests)))


def _placed(decisions: Sequence[Decision]) -> int:
    return sum(isinstance(decision, Placed) for decision in decisions)


def _largest_first(fleet: Fleet, requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests by the most GPU units they can take; equal ones as given."""
    state = FleetState(fleet)
    units: dict[Kind, int] = {}

    def size(index: int) -> tuple[int, int]:
        demand = state.digest(requests[index], PlacementPolicy.BREADTH_FIRST)
        for kind in demand.kinds:
            if kind not in units:
                units[kind] = _most_units(state, kind)
        wanted = sum(kind.count * units[kind] for kind in demand.kinds)
        return -demand.whole, -wanted

    return sorted(range(len(requests)), key=size)


def _most_units(state: FleetState, kind: Kind) -> int:
    """Units of one part on the GPU where it takes the most."""
    makers = (gpu for host in state.hosts for gpu in host.makers(kind))
    return max((gpu.matching(kind)[0].units for gpu in makers), default=0)
