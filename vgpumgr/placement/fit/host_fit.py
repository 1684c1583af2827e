"""The best fit of one VM on one host (NUMA node and GPUs), its commit and its release."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import FreeVf, NicSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec
from vgpumgr.placement.fit.gpu_search import Pick, pick_gpus
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.fit.policy_keys import KEYS, Key, Keys
from vgpumgr.placement.resources.demand import Demand, KindKey, kind_key
from vgpumgr.placement.resources.gpu_slots import slots_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import FleetState, HostState, NodeState
from vgpumgr.placement.resources.nic_functions import candidates, chosen, distance, functions_of

Score = tuple[int, tuple[Key, ...], Key]


@dataclass(frozen=True, slots=True)
class Fit:
    """A VM on a host. ``score`` is comparable among fits of equal demands; lower is better.
    ``nics`` are where it gets VFs of, ``far`` how far these are from its GPUs in all.
    """

    host: HostState
    node: NodeState | None
    picks: tuple[Pick, ...]
    partition: int | None
    score: Score
    nics: tuple[NicSupply, ...] = ()
    far: int = 0

    @property
    def off_node(self) -> bool:
        """Whether the VM prefers one NUMA node and does not lie on one."""
        return self.score[0] > 0


def find_fit(
    host: HostState,
    demand: Demand,
    keys: Keys | None = None,
    *,
    only: list[GpuOccupancy] | None = None,
) -> Fit | None:
    """The best fit on this host, or None.

    With ``prefer`` a placement on one NUMA node beats any other; the rest of the order is that of
    ``keys``, by default the policy's. ``only`` these GPUs are looked at where it is given.
    """
    keys = keys or KEYS[demand.policy]
    if refuse_host(host, demand) is not None:
        return None
    nodes = nodes_to_try(host, demand)
    fits = [fit for node in nodes if (fit := fit_on(host, demand, node, keys, only))]
    if fits:
        return min(fits, key=lambda fit: (fit.score, fit.far))
    return None if demand.numa is NumaPolicy.REQUIRE else fit_on(host, demand, None, keys, only)


def nodes_to_try(host: HostState, demand: Demand) -> list[NodeState]:
    """NUMA nodes the VM may be bound to. ``prefer`` binds only what there is to be near to."""
    if demand.numa is NumaPolicy.NONE:
        return []
    if demand.numa is NumaPolicy.REQUIRE or demand.pin_cpus or demand.pages:
        return host.nodes
    near = {gpu.numa_node for gpu in host.gpus} if demand.kinds else set()
    if demand.sriov and not demand.kinds:
        near = {nic.numa_node for nic in host.supply.nics if host.nics.free(nic)}
    return [node for node in host.nodes if node.id in near]


def fit_on(
    host: HostState,
    demand: Demand,
    node: NodeState | None,
    keys: Keys,
    only: list[GpuOccupancy] | None = None,
) -> Fit | None:
    """The best fit with CPUs, memory and GPUs on ``node``; None lets them lie anywhere."""
    if node is not None and node_shortage(node, demand):
        return None
    gpus = gpus_near(host, demand, node, only)
    if demand.sriov:
        gpus = _by_nics(host, gpus, demand)
    if demand.kinds and not gpus:
        return None
    found = pick_gpus(host, gpus, demand, keys)
    if found is None:
        return None
    score = (
        _misses_node(demand, node, found.picks),
        found.key,
        keys.host(host),
    )
    partition = found.partition_choice.partition
    if not demand.sriov:
        return Fit(host, node, found.picks, partition, score)
    places = _places(found.picks, node)
    nics = chosen(host.nics, demand.sriov, places) or ()
    far = sum(distance(nic, places[n % len(places)]) for n, nic in enumerate(nics) if places)
    return Fit(host, node, found.picks, partition, score, nics, far)


def _places(picks: tuple[Pick, ...], node: NodeState | None) -> tuple[tuple[str, int | None], ...]:
    """What its NICs are to be near to: its GPUs, each once, or the NUMA node of its memory."""
    places = dict.fromkeys((pick.gpu.supply.path, pick.gpu.numa_node) for pick in picks)
    return tuple(places) or ((("", node.id),) if node is not None else ())


def node_shortage(node: NodeState, demand: Demand) -> str:
    """What the node lacks, as words with numbers; empty when it has enough."""
    if demand.pin_cpus and len(node.cpus) < demand.vcpus:
        return f"{len(node.cpus)} free CPUs of {demand.vcpus} needed"
    if node.memory_mib < demand.memory_mib:
        return f"{node.memory_mib} MiB free of {demand.memory_mib} needed"
    pages = node.pages.get(demand.hugepage_kib, 0)
    if demand.pages > pages:
        return f"{pages} huge pages of {demand.hugepage_kib} KiB free of {demand.pages} needed"
    return ""


def gpus_near(
    host: HostState,
    demand: Demand,
    node: NodeState | None,
    only: list[GpuOccupancy] | None = None,
) -> list[GpuOccupancy]:
    """GPUs on ``node``. One whose node is unknown satisfies ``prefer`` but not ``require``."""
    gpus = host.gpus if only is None else only
    if node is None:
        return gpus
    near = (node.id,) if demand.numa is NumaPolicy.REQUIRE else (node.id, None)
    return [gpu for gpu in gpus if gpu.numa_node in near]


def _by_nics(host: HostState, gpus: list[GpuOccupancy], demand: Demand) -> list[GpuOccupancy]:
    """GPUs with free VFs near to them first: what is equal otherwise goes by this order."""
    nics = [nic for wanted in demand.sriov for nic in candidates(host.supply.nics, wanted)]
    able = [nic for nic in nics if host.nics.free(nic)]

    def far(gpu: GpuOccupancy) -> int:
        place = gpu.supply.path, gpu.numa_node
        return min((distance(nic, place) for nic in able), default=0)

    return sorted(gpus, key=far)


def _misses_node(demand: Demand, node: NodeState | None, picks: tuple[Pick, ...]) -> int:
    if node is not None or demand.numa is NumaPolicy.NONE:
        return 0
    known = any(pick.gpu.numa_node is not None for pick in picks)
    return int(known or demand.pin_cpus or demand.pages > 0)


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
        nic_functions=functions_of(fit.host.nics, fit.nics),
    )


def commit(fleet: FleetState, host: HostState, placed: Placed, demand: Demand) -> None:
    """Use up what ``placed`` takes; ``host`` has not changed since the decision."""
    host.take(demand, placed)
    fleet.placed(host, placed.request.labels)


def release(fleet: FleetState, host: HostState, placed: Placed, demand: Demand) -> None:
    """Give back what ``commit`` of the same value used up."""
    host.give_back(demand, placed)
    fleet.released(host, placed.request.labels)


def _assignment(pick: Pick, vfs: Counter[str]) -> Assignment:
    """The assignment of one part; ``vfs`` counts the VFs that earlier parts of the VM take."""
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
