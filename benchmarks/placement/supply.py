"""A trace in the product's own terms: hosts as supply, tasks as VMs.

A GPU has a thousand units; a share of 470 thousandths is the profile ``share-470``.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.placement.traces import MILLI, Host, Shape
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec

GIB = 1 << 10
GPU_MIB = 16 * GIB
"""A GPU's memory, which the trace does not tell; no request goes by it."""


def fleet_of(hosts: Sequence[Host], shapes: Sequence[Shape]) -> Fleet:
    """The empty fleet, hosts named by their number.

    Every GPU offers itself whole and each share that is asked for.
    """
    sizes = sorted({shape.gpu_milli for shape in shapes if shape.share})
    offers = (*map(_share, sizes), _whole())
    units = tuple(range(MILLI))
    named = enumerate(hosts)
    return Fleet(hosts=tuple(_host(str(number), host, offers, units) for number, host in named))


def vm_of(shape: Shape) -> VmSpec:
    """The VM that asks for as much; its vCPUs are thousandths of a core."""
    profile = f"share-{shape.gpu_milli}" if shape.share else PASSTHROUGH_PROFILE
    part = GpuRequest(profile=profile, count=shape.gpus, models=shape.models)
    return VmSpec(
        name="vm",
        vcpus=shape.cpu_milli,
        memory_mib=shape.memory_mib,
        gpus=(part,) if shape.gpus else (),
        numa=NumaPolicy.NONE,
    )


def _host(name: str, host: Host, offers: tuple[Offer, ...], units: tuple[int, ...]) -> HostSupply:
    return HostSupply(
        name=name,
        vcpus=host.cpu_milli,
        memory_mib=host.memory_mib,
        free_vcpus=host.cpu_milli,
        free_memory_mib=host.memory_mib,
        numa=(),
        gpus=tuple(_gpu(name, host, number, offers, units) for number in range(host.gpus)),
    )


def _gpu(
    name: str, host: Host, number: int, offers: tuple[Offer, ...], units: tuple[int, ...]
) -> GpuSupply:
    return GpuSupply(
        id=f"{name}/{number}",
        device=f"0000:{number + 1:02x}:00.0",
        model=host.model,
        numa_node=None,
        units=MILLI,
        free_slots=units,
        offers=offers,
    )


def _share(milli: int) -> Offer:
    return Offer(
        profile=f"share-{milli}",
        framework=Framework.MDEV,
        type_id=f"share-{milli}",
        units=milli,
        max_instances=MILLI // milli,
        memory_mib=GPU_MIB * milli // MILLI,
    )


def _whole() -> Offer:
    return Offer(
        profile=PASSTHROUGH_PROFILE,
        framework=Framework.PASSTHROUGH,
        type_id="",
        units=MILLI,
        max_instances=1,
        memory_mib=GPU_MIB,
    )
