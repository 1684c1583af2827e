"""Place requests one after the other; each placed VM uses up supply for the next ones."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.placement import Assignment, Decision, Fleet, NotPlaced, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.candidates import Candidates
from vgpumgr.placement.demand import Demand, kind_key
from vgpumgr.placement.fit import Fit
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
    taken: dict[tuple[str, str | None], list[Assignment]] = {}
    for pick in fit.picks:
        gpu = pick.gpu
        slots = gpu.take(pick.offer)
        part = Assignment(
            gpu=gpu.supply.id, device=gpu.supply.device, offer=pick.offer, slots=slots
        )
        taken.setdefault(kind_key(pick.kind.profile, pick.kind.model), []).append(part)
    cpus = fit.host.take(demand, fit.node)
    fleet.changed(fit.host, request.labels)
    return Placed(
        request=request,
        host=fit.host.name,
        assignments=_as_asked(request, taken),
        numa_node=fit.node.id if fit.node else None,
        cpus=cpus,
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
    units: dict[str, int] = {}
    for host in fleet.hosts:
        for gpu in host.gpus:
            for offer in gpu.offers:
                units[offer.profile] = max(units.get(offer.profile, 0), offer.units)

    def size(index: int) -> tuple[int, int]:
        gpus = requests[index].gpus
        whole = sum(part.count for part in gpus if part.profile == PASSTHROUGH_PROFILE)
        return -whole, -sum(part.count * units.get(part.profile, 0) for part in gpus)

    return sorted(range(len(requests)), key=size)


def _as_asked(
    request: VmSpec, taken: dict[tuple[str, str | None], list[Assignment]]
) -> tuple[Assignment, ...]:
    """Assignments in the order in which the request lists its GPU parts."""
    return tuple(
        taken[kind_key(part.profile, part.model)].pop(0)
        for part in request.gpus
        for _ in range(part.count)
    )
