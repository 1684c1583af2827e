"""Partitions of NVSwitch hosts: the whole GPUs of one VM are exactly one partition.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, guide on Fabric Manager partitioning, and NVIDIA
kubevirt-gpu-device-plugin PR 193: no subset, no union, single GPUs included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model.placement import Reason
from vgpumgr.model.supply import PartitionSupply
from vgpumgr.placement.fit.gpu_rules import first_fit
from vgpumgr.placement.fit.slot_rules import holders, name, no_gpu
from vgpumgr.placement.resources.demand import Demand, whole
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """One way to choose whole GPUs: which may go (None: any), and the larger partitions broken."""

    demand: Demand
    gpus: frozenset[str] | None = None
    partition: int | None = None
    broken: int = 0


def partition_choices(
    host: HostState, gpus: Sequence[GpuOccupancy], demand: Demand
) -> Iterator[PartitionChoice]:
    """The ways to choose whole GPUs among ``gpus``, best first.

    All GPUs of a free partition are empty, so policies do not tell partitions apart: what counts
    is how many larger ones stay free. Parts by size get whole GPUs when nothing smaller does.
    """
    if not host.supply.partitions:
        yield PartitionChoice(demand)
        return
    yield from _ways(host, gpus, demand)
    all_whole = demand.all_whole()
    if all_whole != demand:
        yield from _ways(host, gpus, all_whole)


def free_partitions(
    host: HostState, gpus: Sequence[GpuOccupancy], size: int
) -> list[tuple[int, PartitionSupply]]:
    """Free partitions of ``size`` among ``gpus``, with the number of larger ones they break."""
    usable = {gpu.supply.id for gpu in host.gpus if _obstacle(gpu) is None}
    free = [each for each in host.supply.partitions if each.gpus <= usable]
    near = {gpu.supply.id for gpu in gpus}
    return [
        (sum(len(o.gpus) > size and bool(o.gpus & each.gpus) for o in free), each)
        for each in free
        if len(each.gpus) == size and each.gpus <= near
    ]


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


def _ways(
    host: HostState, gpus: Sequence[GpuOccupancy], demand: Demand
) -> Iterator[PartitionChoice]:
    if not demand.whole:
        yield PartitionChoice(demand, frozenset())
        return
    free = free_partitions(host, gpus, demand.whole)
    for broken, partition in sorted(free, key=lambda pair: pair[0]):
        yield PartitionChoice(demand, partition.gpus, partition.id, broken)


def _none_free(host: HostState, gpu: GpuOccupancy, size: int) -> Reason:
    alike = [each for each in host.supply.partitions if len(each.gpus) == size]
    mine = [each for each in alike if gpu.supply.id in each.gpus]
    if not alike:
        sizes = sorted({len(each.gpus) for each in host.supply.partitions})
        there = f"{host.name} has partitions of {', '.join(map(str, sizes))} GPUs only"
    else:
        there = "; ".join(_words(host, each) for each in mine or alike)
    with_it = f" with {name(gpu)}" if mine else ""
    gpus = f"{size} GPU" + ("s" if size > 1 else "")
    text = f"no partition of {gpus}{with_it} is free: {there}"
    return no_gpu(gpu, "partition", text, size=size, partitions=there)


def _words(host: HostState, partition: PartitionSupply) -> str:
    """``{1,3} holds VM x``: the partition by Fabric Manager's numbers, and its first obstacle."""
    known = {gpu.supply.id: gpu for gpu in host.gpus}
    members = [known[each] for each in sorted(partition.gpus) if each in known]
    label = "{" + ",".join(sorted(_label(gpu) for gpu in members)) + "}"
    if len(members) < len(partition.gpus):
        return f"{label} has a GPU that was not seen"
    return f"{label} " + next(filter(None, map(_obstacle, members)), "is free elsewhere")


def _label(gpu: GpuOccupancy) -> str:
    module = gpu.supply.module_id
    return gpu.supply.device if module is None else str(module)


def _obstacle(gpu: GpuOccupancy) -> str | None:
    """Why the GPU cannot go whole, as the end of a sentence about its partition."""
    supply = gpu.supply
    if not gpu.empty:
        return f"holds {holders(gpu) or 'GPU instances'}"
    why = supply.blocked or supply.passthrough_blocked
    return f"cannot go: {name(gpu)}: {why}" if why else None
