"""From a fit to the value that is answered, and from there to supply used up and given back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, FreeVf, Placed
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement.demand import Demand, KindKey, kind_key
from vgpumgr.placement.fit import Fit
from vgpumgr.placement.geometry import slots_of
from vgpumgr.placement.search import Pick
from vgpumgr.placement.state import FleetState, HostState


def proposal(fit: Fit, request: VmSpec, demand: Demand) -> Placed:
    """What ``fit`` would take, as it is answered; nothing is used up."""
    taken: dict[KindKey, list[Assignment]] = {}
    vfs: Counter[str] = Counter()
    for pick in fit.picks:
        taken.setdefault(pick.kind.key, []).append(_assignment(pick, vfs))
    return Placed(
        request=request,
        host=fit.host.name,
        assignments=_as_asked(request, taken),
        numa_node=fit.node.id if fit.node else None,
        cpus=fit.host.cpus_for(demand, fit.node),
        partition=fit.partition,
    )


def commit(fleet: FleetState, host: HostState, placed: Placed, demand: Demand) -> None:
    """Use up what was answered; ``host`` has not changed since."""
    host.take(demand, placed)
    fleet.placed(host, placed.request.labels)


def release(fleet: FleetState, host: HostState, placed: Placed, demand: Demand) -> None:
    """Give back what ``commit`` of the same value used up."""
    host.give_back(demand, placed)
    fleet.released(host, placed.request.labels)


def _assignment(pick: Pick, vfs: Counter[str]) -> Assignment:
    """``vfs`` counts those that parts before this one take."""
    gpu, spot = pick.gpu.supply, pick.spot
    vf: FreeVf | None = None
    if pick.offer.needs_vf:
        vf = pick.gpu.vfs[vfs[gpu.id]]
        vfs[gpu.id] += 1
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=pick.offer,
        slots=slots_of(spot.slots),
        start=spot.at,
        vf=vf,
        make_instance=spot.make_instance,
    )


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
