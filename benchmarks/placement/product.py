"""The product's own placement, through its public API: openb's hosts and tasks as supply and VMs.

A host is a ``HostSupply`` whose GPUs have a thousand units, a task a ``VmSpec``; a share of 470
thousandths is the profile ``share-470``. What a history tells becomes the mix and the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.placement.policy import Place
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import MILLI, Host, Shape
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.placement import Fleet, GpuSupply, HostSupply, Offer, Placed
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.mix import Mix
from vgpumgr.placement.placer import Placer

GIB = 1 << 10
GPU_MIB = 16 * GIB
"""A GPU's memory, which the trace does not tell; no request goes by it."""


class Product:
    """``Placer`` under one policy; it knows the history and no more."""

    def __init__(
        self,
        arrivals: Arrivals,
        policy: PlacementPolicy,
        history: Sequence[Shape] = (),
        *,
        planned: bool = True,
    ) -> None:
        fleet = fleet_of(arrivals.hosts, arrivals.shapes)
        past = [vm_of(shape) for shape in history]
        mix = Mix.of(past) if past else None
        plan = _plan(fleet, past) if past and planned else None
        self._placer = Placer(fleet, policy, mix=mix, plan=plan, seed=arrivals.seed)
        self._vms = [vm_of(shape) for shape in arrivals.shapes]
        self._host = {host.name: number for number, host in enumerate(fleet.hosts)}
        self._gpu = {gpu.id: n for host in fleet.hosts for n, gpu in enumerate(host.gpus)}
        self._held: dict[int, Placed] = {}

    def place(self, request: int, kind: int) -> Place | None:
        """Decide a request of this shape and hold what it takes; None is a refusal."""
        vm = replace(self._vms[kind], name=f"vm-{request}")
        decision = self._placer.decide(vm, explain=False)
        if not isinstance(decision, Placed):
            return None
        self._placer.commit(decision)
        self._held[request] = decision
        gpus = tuple(self._gpu[part.gpu] for part in decision.assignments)
        return Place(self._host[decision.host], gpus)

    def release(self, request: int) -> None:
        """Give back what the request holds."""
        self._placer.release(self._held.pop(request))


def fleet_of(hosts: Sequence[Host], shapes: Sequence[Shape]) -> Fleet:
    """The empty fleet; every GPU offers itself whole and each share that is asked for."""
    sizes = sorted({shape.gpu_milli for shape in shapes if shape.share})
    offers = (*map(_share, sizes), _whole())
    units = tuple(range(MILLI))
    return Fleet(hosts=tuple(_host(host, offers, units) for host in hosts))


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


def _plan(fleet: Fleet, past: Sequence[VmSpec]) -> Any:
    from vgpumgr.placement.plan import make_plan

    return make_plan(fleet, past)


def _host(host: Host, offers: tuple[Offer, ...], units: tuple[int, ...]) -> HostSupply:
    return HostSupply(
        name=host.name,
        vcpus=host.cpu_milli,
        memory_mib=host.memory_mib,
        free_vcpus=host.cpu_milli,
        free_memory_mib=host.memory_mib,
        numa=(),
        gpus=tuple(_gpu(host, number, offers, units) for number in range(host.gpus)),
    )


def _gpu(host: Host, number: int, offers: tuple[Offer, ...], units: tuple[int, ...]) -> GpuSupply:
    return GpuSupply(
        id=f"{host.name}/{number}",
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
