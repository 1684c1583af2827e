"""Place requests one after the other; each placed VM uses up supply for the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Decision, Fleet, NotPlaced, Placed
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.candidates import Candidates
from vgpumgr.placement.demand import Demand, Kind, KindKey, kind_key
from vgpumgr.placement.fit import Fit
from vgpumgr.placement.geometry import slots_of
from vgpumgr.placement.search import Pick
from vgpumgr.placement.state import FleetState


def place(
    fleet: Fleet, requests: Sequence[VmSpec], policy: PlacementPolicy
) -> tuple[Decision, ...]:
    """Decide every request; decisions come in the order of ``requests``.

    Requests are placed in the order given. When some do not fit, all are tried once more with the
    largest first (whole GPUs, then by units), and that outcome is taken only if it places more
    VMs. A request's own policy wins over ``policy``. The same input gives the same decisions.
    """
    given = list(range(len(requests)))
    decisions = _in_order(fleet, requests, given, policy)
    if _placed(decisions) == len(requests):
        return decisions
    largest_first = _largest_first(fleet, requests)
    if largest_first == given:
        return decisions
    again = _in_order(fleet, requests, largest_first, policy)
    return again if _placed(again) > _placed(decisions) else decisions


def commit(fleet: FleetState, fit: Fit, request: VmSpec, demand: Demand) -> Placed:
    """Use up what ``fit`` takes and say where everything went."""
    taken: dict[KindKey, list[Assignment]] = {}
    for pick in fit.picks:
        taken.setdefault(pick.kind.key, []).append(_take(pick))
    cpus = fit.host.take(demand, fit.node)
    fleet.changed(fit.host, request.labels)
    return Placed(
        request=request,
        host=fit.host.name,
        assignments=_as_asked(request, taken),
        numa_node=fit.node.id if fit.node else None,
        cpus=cpus,
        partition=fit.partition,
    )


def _take(pick: Pick) -> Assignment:
    gpu, spot = pick.gpu, pick.spot
    vf = gpu.take(pick.offer, spot).vf
    return Assignment(
        gpu=gpu.supply.id,
        device=gpu.supply.device,
        offer=pick.offer,
        slots=slots_of(spot.slots),
        start=spot.at,
        vf=vf,
        make_instance=spot.make_instance,
    )


def _in_order(
    fleet: Fleet, requests: Sequence[VmSpec], order: Sequence[int], policy: PlacementPolicy
) -> tuple[Decision, ...]:
    state = FleetState(fleet)
    known: dict[Demand, Candidates] = {}
    decisions: dict[int, Decision] = {}
    for index in order:
        request = requests[index]
        demand = state.digest(request, policy)
        if demand not in known:
            known[demand] = Candidates(state, demand)
        fit = known[demand].best()
        if fit is None:
            decisions[index] = NotPlaced(request=request, reasons=known[demand].reasons())
        else:
            decisions[index] = commit(state, fit, request, demand)
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


def _as_asked(request: VmSpec, taken: dict[KindKey, list[Assignment]]) -> tuple[Assignment, ...]:
    """Assignments in the order in which the request lists its GPU parts."""
    return tuple(
        _limited(taken[kind_key(part)].pop(0), part)
        for part in request.gpus
        for _ in range(part.count)
    )


def _limited(assignment: Assignment, part: GpuRequest) -> Assignment:
    """The frame rate limiter is a parameter of vGPUs alone."""
    vgpu = assignment.offer.framework in (Framework.MDEV, Framework.VFIO_VF)
    if part.frame_rate_limiter is None or not vgpu:
        return assignment
    return replace(assignment, frame_rate_limiter=part.frame_rate_limiter)
