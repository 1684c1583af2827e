"""The product's placement with a plan of what is free, made anew all the time, as a policy.

``apply`` and ``serve`` read the ledger each time and plan for what it says is free; nobody keeps a
Placer from the empty fleet to the full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.placement.product import Product
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.supply import vm_of
from benchmarks.placement.traces import Shape
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Usage
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.capacity_plan.plan_maker import make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan

REQUESTS = 300
"""After so many requests the plan is made anew."""


class PlannedAnew(Product):
    """``Product`` as commands run it; the mix is learned as there."""

    def __init__(self, arrivals: Arrivals, history: Sequence[Shape] = ()) -> None:
        self._asked = [vm_of(shape) for shape in history]
        self._planned_for = 0
        super().__init__(arrivals, history=history)

    def rest(self) -> None:
        """Make the plan that is due."""
        if len(self._asked) >= self._planned_for + REQUESTS:
            self._plan()

    def _plan(self) -> None:
        self._planned_for = len(self._asked)
        plan = make_plan(what_is_left(self._placer.fleet, self._held.values()), self._asked)
        self._placer.adopt_plan(
            plan if isinstance(plan, CapacityPlan) else None, of_what_is_free=True
        )

    def _seen(self, request: int, kind: int) -> VmSpec:
        vm = super()._seen(request, kind)
        self._asked.append(vm)
        return vm


def what_is_left(fleet: Fleet, held: Iterable[Placed]) -> Fleet:
    """The supply of an empty fleet without what these VMs take; GPU shares and whole GPUs only."""
    vms: dict[str, list[VmSpec]] = {}
    parts: dict[str, list[Assignment]] = {}
    for placed in held:
        vms.setdefault(placed.host, []).append(placed.request)
        for part in placed.assignments:
            parts.setdefault(part.gpu, []).append(part)
    return Fleet(hosts=tuple(_host(host, vms.get(host.name, []), parts) for host in fleet.hosts))


def _host(
    host: HostSupply, vms: Sequence[VmSpec], parts: dict[str, list[Assignment]]
) -> HostSupply:
    if not vms:
        return host
    return replace(
        host,
        free_vcpus=host.free_vcpus - sum(vm.vcpus for vm in vms),
        free_memory_mib=host.free_memory_mib - sum(vm.memory_mib for vm in vms),
        gpus=tuple(_gpu(gpu, parts.get(gpu.id, [])) for gpu in host.gpus),
    )


def _gpu(gpu: GpuSupply, parts: Sequence[Assignment]) -> GpuSupply:
    if not parts:
        return gpu
    taken = {slot for part in parts for slot in part.slots}
    whole = any(part.offer.framework is Framework.PASSTHROUGH for part in parts)
    free = () if whole else tuple(slot for slot in gpu.free_slots if slot not in taken)
    return replace(gpu, free_slots=free, usages=tuple(map(_usage, parts)))


def _usage(part: Assignment) -> Usage:
    offer = part.offer
    return Usage(profile=offer.profile, framework=offer.framework, units=offer.units)
