"""Explanations GPU by GPU: why a request does not fit, and why free GPU memory is stranded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.model.placement import FAR_REASONS, FITS, Placed, Reason
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, PartitionSupply
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.gpu_rules import first_fit, name, no_gpu, refuse_gpu, room
from vgpumgr.placement.fit.gpu_search import families, free_partitions, obstacle, pick_gpus
from vgpumgr.placement.fit.host_fit import (
    commit,
    find_fit,
    fit_on,
    gpus_near,
    node_shortage,
    release,
)
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.fit.policy_keys import KEYS
from vgpumgr.placement.request_mix import Mix
from vgpumgr.placement.resources.demand import Demand, PartKind, whole
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import FleetState, HostState, NodeState
from vgpumgr.placement.scores.fragmentation import memory_mib


def explain(fleet: Fleet, request: VmSpec) -> tuple[Reason, ...]:
    """One Reason for every GPU of the fleet: the first rule that failed, or code ``fits``.

    Hosts without GPUs, and all hosts when the VM wants no GPU, get one Reason with ``gpu`` empty.
    """
    return Explainer(fleet).of(request)


class Explainer:
    """``explain`` for VM after VM, over a fleet on which ``taken`` was decided already."""

    def __init__(self, fleet: Fleet, taken: Iterable[Placed] = ()) -> None:
        self._state = FleetState(fleet)
        self._hosts = {host.name: host for host in self._state.hosts}
        for placed in taken:
            commit(self._state, self._hosts[placed.host], placed, self._demand(placed.request))

    def of(self, request: VmSpec, place: Placed | None = None) -> tuple[Reason, ...]:
        """Why each GPU refuses the request or fits; ``place`` is the VM's own place among
        ``taken``.
        """
        if place is not None:
            host, demand = self._hosts[place.host], self._demand(place.request)
            release(self._state, host, place, demand)
        demand = self._demand(request)
        said = tuple(each for host in self._state.hosts for each in _explain_host(host, demand))
        if place is not None:
            host, demand = self._hosts[place.host], self._demand(place.request)
            commit(self._state, host, place, demand)
        return said

    def _demand(self, request: VmSpec) -> Demand:
        return self._state.digest(request, PlacementPolicy.BREADTH_FIRST)


def refusals(host: HostState, demand: Demand) -> tuple[Reason, ...]:
    """Why ``host`` does not take the VM: one Reason per GPU, or one for the host."""
    reason = refuse_host(host, demand)
    if reason is not None:
        return (reason,)
    if not demand.kinds:
        return (_no_node(host, demand),)
    return tuple(
        _refuses_every_kind(gpu, demand) or _not_with_the_rest(host, gpu, demand)
        for gpu in host.gpus
    )


class FleetRefusals:
    """Why a fleet does not take a demand; worked out anew only for hosts that changed."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._known: dict[Demand, dict[int, tuple[int, tuple[Reason, ...]]]] = {}

    def of(self, demand: Demand) -> tuple[Reason, ...]:
        """One Reason per GPU, or one per host that failed before its GPUs were looked at."""
        known = self._known.setdefault(demand, {})
        return tuple(each for host in self._fleet.hosts for each in self._on(host, demand, known))

    def _on(
        self, host: HostState, demand: Demand, known: dict[int, tuple[int, tuple[Reason, ...]]]
    ) -> tuple[Reason, ...]:
        version, reasons = known.get(host.order, (-1, ()))
        if version != host.version:
            reasons = refusals(host, demand)
            known[host.order] = host.version, reasons
        return reasons


def _explain_host(host: HostState, demand: Demand) -> Iterable[Reason]:
    if find_fit(host, demand) is None:
        reasons = refusals(host, demand)
        return _for_every_gpu(host, reasons) if demand.kinds else reasons
    if not demand.kinds:
        text = f"{host.name} has {host.free_vcpus} vCPUs and {host.memory_mib} MiB free"
        return (Reason(code=FITS, host=host.name, text=text),)
    return [_explain_gpu(host, gpu, demand) for gpu in host.gpus]


def _for_every_gpu(host: HostState, reasons: tuple[Reason, ...]) -> Iterable[Reason]:
    """A host refused as a whole refuses with each of its GPUs."""
    if reasons[0].gpu or not host.gpus:
        return reasons
    return [
        replace(reasons[0], gpu=g.supply.id, device=g.supply.device, model=g.supply.model)
        for g in host.gpus
    ]


def _explain_gpu(host: HostState, gpu: GpuOccupancy, demand: Demand) -> Reason:
    reason = _refuses_every_kind(gpu, demand)
    if reason is not None:
        return reason
    if demand.numa is NumaPolicy.REQUIRE and not _fits_on_node_of(host, gpu, demand):
        return _not_with_the_rest(host, gpu, demand)
    reason = outside(host, gpu, demand)
    if reason is not None:
        return reason
    takes = [(kind, count) for kind in demand.kinds if (count := room(gpu, kind, demand))]
    free, units = gpu.free_units, gpu.supply.units
    can = ", ".join(f"{count} × {kind.words}" for kind, count in takes)
    text = f"{name(gpu)} has room for {can} ({free} of {units} units free)"
    return no_gpu(gpu, FITS, text, room=takes[0][1], free=free, units=units)


def _refuses_every_kind(gpu: GpuOccupancy, demand: Demand) -> Reason | None:
    """The first kind's reason when the GPU can hold no part of this VM at all."""
    first: Reason | None = None
    for kind in demand.kinds:
        reason = refuse_gpu(gpu, kind, demand)
        if reason is None:
            return None
        first = first or reason
    return first


def _not_with_the_rest(host: HostState, gpu: GpuOccupancy, demand: Demand) -> Reason:
    """The GPU could hold a part, but not together with the rest of what the VM needs."""
    node = None
    if demand.numa is NumaPolicy.REQUIRE:
        node = _node_of(host, gpu)
        if node is None:
            text = f"the NUMA node of {name(gpu)} is unknown, numa: require needs it"
            return no_gpu(gpu, "numa", text)
        shortage = node_shortage(node, demand)
        if shortage:
            text = f"{name(gpu)} is on NUMA node {node.id}, which has {shortage}"
            return no_gpu(gpu, "numa", text, node=node.id)
    gpus = gpus_near(host, demand, node)
    where = host.name if node is None else f"NUMA node {node.id} of {host.name}"
    return (
        refuse_partition(host, gpus, gpu, demand)
        or _mixed(host, gpus, gpu, demand)
        or _too_few(gpu, _scarcest(gpus, demand), where, demand)
    )


def _mixed(
    host: HostState, gpus: list[GpuOccupancy], gpu: GpuOccupancy, demand: Demand
) -> Reason | None:
    """Only together do the parts not fit: vGPUs of one VM share a board model and a series."""
    found = [family for family in families(gpus, demand) if family]
    if len(found) < 2 or pick_gpus(host, gpus, demand, KEYS[demand.policy], mixing=True) is None:
        return None
    there = ", ".join(f"{series} series of {model}" for model, series in found)
    text = (
        f"vGPUs of one VM must be of one board model and one series: {host.name} can provide them"
    )
    text += f" only as a mix ({there})"
    return no_gpu(gpu, "mix-in-vm", text, families=there, vgpus=demand.vgpus)


def _too_few(gpu: GpuOccupancy, scarce: tuple[PartKind, int], where: str, demand: Demand) -> Reason:
    kind, have = scarce
    own = None if have else refuse_gpu(gpu, kind, demand)
    if own is not None and own.code not in FAR_REASONS:
        return own
    if have < kind.count:
        text = f"{name(gpu)} has room, but {where} has room for {have} of {kind.count}"
        text += f" {kind.words} that one VM needs"
    else:
        text = f"{name(gpu)} has room, but {where} cannot hold all GPU parts of the VM together"
    return no_gpu(gpu, "gpu-count", text, have=have, need=kind.count)


def _scarcest(gpus: list[GpuOccupancy], demand: Demand) -> tuple[PartKind, int]:
    rooms = [(kind, sum(room(gpu, kind, demand) for gpu in gpus)) for kind in demand.kinds]
    return min(rooms, key=lambda pair: pair[1] - pair[0].count)


def _no_node(host: HostState, demand: Demand) -> Reason:
    """Only ``numa: require`` refuses a VM without GPUs on a host that has enough in all."""
    short = [f"node {node.id}: {node_shortage(node, demand)}" for node in host.nodes]
    text = f"no NUMA node of {host.name} has enough ({'; '.join(short) or 'none known'})"
    return Reason(code="numa", host=host.name, text=text, facts={"nodes": len(host.nodes)})


def _fits_on_node_of(host: HostState, gpu: GpuOccupancy, demand: Demand) -> bool:
    node = _node_of(host, gpu)
    return node is not None and fit_on(host, demand, node, KEYS[demand.policy]) is not None


def _node_of(host: HostState, gpu: GpuOccupancy) -> NodeState | None:
    return next((node for node in host.nodes if node.id == gpu.numa_node), None)


def refuse_partition(
    host: HostState, gpus: Sequence[GpuOccupancy], gpu: GpuOccupancy, demand: Demand
) -> Reason | None:
    """No partition of the right size is free among ``gpus``."""
    sizes = _sizes(host, gpu, demand)
    if not sizes or any(free_partitions(host, gpus, size) for size in sizes):
        return None
    return _none_free(host, gpu, sizes[0])


def outside(host: HostState, gpu: GpuOccupancy, demand: Demand) -> Reason | None:
    """The GPU can only go whole, and is in no free partition of the right size."""
    sizes = _sizes(host, gpu, demand) if _goes_whole(gpu, demand) else []
    free = [each for size in sizes for _, each in free_partitions(host, host.gpus, size)]
    if not sizes or any(gpu.supply.id in partition.gpus for partition in free):
        return None
    return _none_free(host, gpu, sizes[0])


def _sizes(host: HostState, gpu: GpuOccupancy, demand: Demand) -> list[int]:
    """How many whole GPUs the VM may come to have, where that asks for a partition."""
    if not host.supply.partitions:
        return []
    sizes = [demand.whole, demand.all_whole().whole if _goes_whole(gpu, demand) else 0]
    return [size for size in dict.fromkeys(sizes) if size]


def _goes_whole(gpu: GpuOccupancy, demand: Demand) -> bool:
    """Nothing less than the whole GPU answers any kind that it can take now."""
    found = [first_fit(gpu, kind, demand) for kind in demand.kinds]
    return all(whole(fit[0]) for fit in found if fit is not None)


def _none_free(host: HostState, gpu: GpuOccupancy, size: int) -> Reason:
    alike = [each for each in host.supply.partitions if len(each.gpus) == size]
    mine = [each for each in alike if gpu.supply.id in each.gpus]
    if not alike:
        sizes = sorted({len(each.gpus) for each in host.supply.partitions})
        there = f"{host.name} has partitions of {', '.join(map(str, sizes))} GPUs only"
    else:
        there = "; ".join(_partition_words(host, each) for each in mine or alike)
    with_it = f" with {name(gpu)}" if mine else ""
    gpus = f"{size} GPU" + ("s" if size > 1 else "")
    text = f"no partition of {gpus}{with_it} is free: {there}"
    return no_gpu(gpu, "partition", text, size=size, partitions=there)


def _partition_words(host: HostState, partition: PartitionSupply) -> str:
    """``{1,3} holds VM x``: the partition by Fabric Manager's numbers, and its first obstacle."""
    known = {gpu.supply.id: gpu for gpu in host.gpus}
    members = [known[each] for each in sorted(partition.gpus) if each in known]
    label = "{" + ",".join(sorted(_gpu_label(gpu) for gpu in members)) + "}"
    if len(members) < len(partition.gpus):
        return f"{label} has a GPU that was not seen"
    return f"{label} " + next(filter(None, map(obstacle, members)), "is free elsewhere")


def _gpu_label(gpu: GpuOccupancy) -> str:
    module = gpu.supply.module_id
    return gpu.supply.device if module is None else str(module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """``free_mib`` of a GPU that no request of the mix can use, and the reason.

    The reason is the rule that fails for the most wanted request that the GPU could make.
    """

    host: str
    gpu: str
    device: str
    model: str
    free_mib: int
    reason: Reason


def stranded(fleet: Fleet, mix: Mix) -> tuple[Stranded, ...]:
    """Every such GPU, in the order of the fleet."""
    wanted = [request for request, _ in sorted(mix.requests, key=lambda each: -each[1])]
    return tuple(
        found
        for host in fleet.hosts
        for found in _on(host, [explain(Fleet(hosts=(host,)), request) for request in wanted])
    )


def _on(host: HostSupply, answers: list[tuple[Reason, ...]]) -> Iterator[Stranded]:
    for gpu in host.gpus:
        if gpu.blocked:  # quarantined, lost: what is on it is not free
            continue
        said = [reason for answer in answers for reason in answer if reason.gpu == gpu.id]
        free_mib = _free(gpu)
        if free_mib and said and all(reason.code != FITS for reason in said):
            near = [reason for reason in said if reason.code not in FAR_REASONS]
            yield Stranded(
                host=host.name,
                gpu=gpu.id,
                device=gpu.device,
                model=gpu.model,
                free_mib=free_mib,
                reason=(near or said)[0],
            )


def _free(gpu: GpuSupply) -> int:
    inside = sum(len(instance.free) for instance in gpu.instances)
    return memory_mib(gpu) * (len(gpu.free_slots) + inside) // max(1, gpu.units)
