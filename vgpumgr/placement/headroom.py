"""How many more VMs like this one fit."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.candidates import Candidates
from vgpumgr.placement.demand import Demand, matches
from vgpumgr.placement.fit import find_fit, gpus_near
from vgpumgr.placement.gpu_rules import room
from vgpumgr.placement.host_rules import refuse_host
from vgpumgr.placement.place import commit
from vgpumgr.placement.state import FleetState, GpuState, HostState, NodeState


def headroom(
    fleet: Fleet,
    request: VmSpec,
    limit: int = 100_000,
    *,
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST,
) -> int:
    """How many copies of ``request`` ``place`` would accept one after the other, at most ``limit``.

    Hosts do not compete for copies of one request, so each is counted by itself. The policy
    matters only for a VM that mixes kinds of GPU parts, and for where a new group starts.
    """
    state = FleetState(fleet)
    demand = state.digest(request, policy)
    total = 0
    if demand.founding:
        fit = Candidates(state, demand).best()
        if fit is None:
            return 0
        commit(state, fit, request, demand)
        demand = state.digest(request, policy)
        total = 1
    for host in state.hosts:
        if total >= limit:
            break
        total += _on_host(state, host, request, demand, limit - total)
    return min(total, limit)


def _on_host(
    state: FleetState, host: HostState, request: VmSpec, demand: Demand, limit: int
) -> int:
    if refuse_host(host, demand) is not None:
        return 0
    if matches(demand.apart_from, request.labels):
        limit = min(limit, 1)
    if len(demand.kinds) > 1:
        return _by_trying(state, host, request, demand, limit)
    return min(limit, _by_counting(host, demand, limit))


def _by_trying(
    state: FleetState, host: HostState, request: VmSpec, demand: Demand, limit: int
) -> int:
    """Kinds of GPU parts compete for GPUs: only placing them tells."""
    for count in range(limit):
        fit = find_fit(host, demand)
        if fit is None:
            return count
        commit(state, fit, request, demand)
    return limit


def _by_counting(host: HostState, demand: Demand, limit: int) -> int:
    """VMs of one kind of GPU part, or of none: every total is used up evenly."""
    most = min(
        _times(host.free_vcpus, demand.vcpus, limit),
        _times(host.memory_mib, demand.memory_mib, limit),
    )
    if demand.numa is NumaPolicy.REQUIRE:
        return min(most, sum(_on_node(host, node, demand, limit) for node in host.nodes))
    return min(
        most,
        _times(host.free_cpus(), demand.vcpus if demand.pin_cpus else 0, limit),
        _times(host.free_pages(demand.hugepage_kib), demand.pages, limit),
        _on_gpus(host.gpus, demand, limit),
    )


def _on_node(host: HostState, node: NodeState, demand: Demand, limit: int) -> int:
    return min(
        _times(len(node.cpus), demand.vcpus if demand.pin_cpus else 0, limit),
        _times(node.memory_mib, demand.memory_mib, limit),
        _times(node.pages.get(demand.hugepage_kib, 0), demand.pages, limit),
        _on_gpus(gpus_near(host, demand, node), demand, limit),
    )


def _on_gpus(gpus: Sequence[GpuState], demand: Demand, limit: int) -> int:
    if not demand.kinds:
        return limit
    kind = demand.kinds[0]
    return sum(room(gpu, kind, demand) for gpu in gpus) // kind.count


def _times(have: int, need: int, limit: int) -> int:
    return max(have, 0) // need if need else limit
