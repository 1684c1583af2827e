"""A plan → everything that an evacuation writes before its first effect. Pure but for the ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.creation import Site, allocate, domain_xml
from vgpumgr.engine.creation.sites import Sites
from vgpumgr.engine.evacuation.plan import EvacuationPlan, Remade
from vgpumgr.engine.reserving.lifecycle import device_steps
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import DefineDomain, StartEvacuated, Step
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.fence import Proof
from vgpumgr.model.journal import EVACUATE, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.vm import Allocation, VmPlace, VmRecord, VmState

KIND = "host evacuate"


@dataclass(frozen=True, slots=True)
class _Anew:
    """A VM as it is now, and as it will be on its new host."""

    old: VmRecord
    vm: VmRecord
    held: tuple[Allocation, ...]
    site: Site


def reservation(
    plan: EvacuationPlan, view: LedgerView, opening: Opening, proof: Proof
) -> Reservation:
    """The VMs marked as moving, what they take on their new hosts, and a task for each.

    What they hold on the lost host they hold until their task is done; the proof that it is off
    stands in the operation.
    """
    operation = replace(opening.operation(KIND), summary=f"{plan.lost.name} is off: {proof.how}")
    sites = Sites(view)
    anew = [_anew(each, sites.site(each.placed.host), opening) for each in plan.remade]
    taken = tuple(allocation for each in anew for allocation in each.held)
    gpus, hosts = {each.gpu for each in taken}, {each.vm.host for each in anew}
    return Reservation(
        operation=operation,
        tasks=tuple(_task(each, plan.lost.name, operation, opening) for each in anew),
        changed_vms=tuple(_leaving(each) for each in anew),
        allocations=taken,
        gpu_generations={gpu.id: gpu.generation for gpu in view.gpus if gpu.id in gpus},
        host_generations={host.name: host.generation for host in view.hosts if host.name in hosts},
    )


def _anew(each: Remade, site: Site, opening: Opening) -> _Anew:
    placed = each.placed
    held = tuple(allocate(part, placed, each.vm.id, site, opening) for part in placed.assignments)
    vm = replace(
        each.vm,
        host=site.host.name,
        numa_node=placed.numa_node,
        cpus=placed.cpus,
        generation=each.vm.generation + 1,
    )
    return _Anew(each.vm, vm, held, site)


def _leaving(each: _Anew) -> VmRecord:
    going = VmPlace(host=each.vm.host, numa_node=each.vm.numa_node, cpus=each.vm.cpus)
    return replace(each.old, state=VmState.MIGRATING, moving_to=going)


def _task(each: _Anew, lost: str, operation: OperationRecord, opening: Opening) -> TaskRecord:
    vm = each.vm
    work: Sequence[Step] = tuple(_work(each))
    task = opening.task(operation, EVACUATE, work, vm_id=vm.id, vm=vm.name, host=vm.host)
    return replace(task, peer=lost)


def _work(each: _Anew) -> Iterator[Step]:
    """Its disks are there; one that was off stays off."""
    vm, site = each.vm, each.site
    yield from device_steps(each.held, site.modules)
    xml = domain_xml(vm, each.held, site)
    starts = site.autostarts(vm.spec)
    yield DefineDomain(name=vm.name, vm_id=vm.id, xml=xml, autostart=starts)
    if vm.running:
        yield StartEvacuated(name=vm.name, vm_id=vm.id)
