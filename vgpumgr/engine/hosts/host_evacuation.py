"""`host evacuate`: VMs of a lost host recreated elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.desktops.desktop_state import floating_desktops
from vgpumgr.engine.desktops.user_sessions import at_work
from vgpumgr.engine.hosts import evacuation_plan
from vgpumgr.engine.hosts.evacuation_plan import EvacuationPlan, RecreatedVm, make_plan, on_host
from vgpumgr.engine.hosts.host_marks import DRAINED, mark
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.nic_functions import check_nics, take_nics
from vgpumgr.engine.reservation.vm_creation import VmSites, allocate, device_steps
from vgpumgr.engine.reservation.vm_volumes import VmSite
from vgpumgr.engine.steps.domain_steps import DefineDomain
from vgpumgr.engine.steps.evacuation_steps import StartEvacuated
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord, Proof
from vgpumgr.model.operation import (
    EVACUATE,
    OperationRecord,
    Reservation,
    TaskRecord,
)
from vgpumgr.model.vm import VmPlace, VmRecord, VmState

KIND = "host evacuate"


@dataclass(frozen=True, slots=True)
class _Anew:
    """A VM as it is now, and as it will be on its new host."""

    old: VmRecord
    vm: VmRecord
    held: tuple[Allocation, ...]
    site: VmSite


def evacuation_reservation(
    plan: EvacuationPlan, view: LedgerView, opening: OperationOpening, proof: Proof
) -> Reservation:
    """The VMs marked as moving, what they take on their new hosts, and a task for each.

    What they hold on the lost host they hold until their task is done; the proof that it is off
    stands in the operation.
    """
    operation = replace(opening.operation(KIND), summary=f"{plan.lost.name} is off: {proof.how}")
    sites = VmSites(view)
    anew = [_anew(each, sites.site(each.placed.host), opening) for each in plan.remade]
    taken = tuple(allocation for each in anew for allocation in each.held)
    gpus, hosts = {each.gpu for each in taken}, {each.vm.host for each in anew}
    return Reservation(
        operation=operation,
        tasks=tuple(_task(each, plan.lost.name, operation, opening) for each in anew),
        changed_vms=tuple(_leaving(each) for each in anew),
        allocations=taken,
        gpu_generations={gpu.id: gpu.generation for gpu in view.gpus if gpu.id in gpus},
        host_generations=view.generations(hosts),
    )


def _anew(each: RecreatedVm, site: VmSite, opening: OperationOpening) -> _Anew:
    placed = each.placed
    held = tuple(allocate(part, placed, each.vm.id, site, opening) for part in placed.assignments)
    vm = replace(
        each.vm,
        host=site.host.name,
        numa_node=placed.numa_node,
        cpus=placed.cpus,
        nic_functions=placed.nic_functions,
        generation=each.vm.generation + 1,
    )
    return _Anew(each.vm, vm, held, site)


def _leaving(each: _Anew) -> VmRecord:
    going = VmPlace(
        host=each.vm.host,
        numa_node=each.vm.numa_node,
        cpus=each.vm.cpus,
        nic_functions=each.vm.nic_functions,
    )
    return replace(each.old, state=VmState.MIGRATING, moving_to=going)


def _task(
    each: _Anew, lost: str, operation: OperationRecord, opening: OperationOpening
) -> TaskRecord:
    vm = each.vm
    work: Sequence[Step] = tuple(_recreation(each))
    task = opening.task(operation, EVACUATE, work, vm_id=vm.id, vm=vm.name, host=vm.host)
    return replace(task, peer=lost)


def _recreation(each: _Anew) -> Iterator[Step]:
    """The steps that recreate a VM on its existing disks; a VM that was off stays off."""
    vm, site = each.vm, each.site
    yield from device_steps(each.held, site.modules)
    yield from take_nics(vm)
    xml = domain_xml(vm, each.held, site)
    starts = site.autostarts(vm.spec)
    yield DefineDomain(name=vm.name, vm_id=vm.id, xml=xml, autostart=starts)
    if vm.running:
        yield StartEvacuated(name=vm.name, vm_id=vm.id)
        yield from check_nics(vm)


def plan(
    context: EngineContext, name: str, *, will_not_boot: bool = False
) -> tuple[EvacuationPlan, LedgerView]:
    """Probe the other hosts, then plan the evacuation; nothing is changed.

    Hosts that hang are left out, unless a VM finds no place on the rest.
    """
    lost = context.ledger.host(name)
    with context.looking(without={name}) as hosts:
        hosts.wait()
        planned, view = _planned(context, lost, will_not_boot=will_not_boot)
        if planned.crowded and hosts.left_out:
            hosts.insist()
            planned, view = _planned(context, lost, will_not_boot=will_not_boot)
    return planned, view


def _planned(
    context: EngineContext, lost: HostRecord, *, will_not_boot: bool
) -> tuple[EvacuationPlan, LedgerView]:
    view = context.view()
    others = (host for host in view.hosts if host.name != lost.name)
    targets = [h for h in others if not (h.at_rest or h.cordoned or h.last_error)]
    seen = evacuation_plan.look(context, targets, tuple(on_host(view.vms, lost.name)))
    found = make_plan(view, lost, seen, context.place, will_not_boot=will_not_boot)
    pools = floating_desktops(context.ledger)
    staying = (
        replace(each, pool=pools.get(each.vm.id, "")) if each.vm.state is VmState.ACTIVE else each
        for each in found.staying
    )
    there = {vm.id for vm in on_host(view.vms, lost.name)}
    users = (user for id_, user in at_work(context.ledger, view).items() if id_ in there)
    return replace(found, staying=tuple(staying), users=tuple(users)), view


def evacuate(
    context: EngineContext, name: str, *, will_not_boot: bool = False, proof: Proof | None = None
) -> tuple[EvacuationPlan, Outcome]:
    """Prove the host off, then recreate its VMs elsewhere; an interrupted evacuation is resumed.
    With a ``proof`` that it is off already nothing is switched off.

    Conflict while it answers, Frozen where nothing may be allocated, NotPermitted where nothing
    proves that it is off: nothing is changed then.
    """
    lost = context.ledger.host(name)
    _refuse_answering(context, lost)
    if frozen := context.ledger.frozen():
        raise frozen.refusal()
    proof = proof or context.fencing.switch_off(lost)
    mark(context, name, cordoned=True, maintenance=True, evacuated=True, **DRAINED)
    before = _unfinished(context, name)

    def attempt() -> tuple[EvacuationPlan, Outcome]:
        planned, view = plan(context, name, will_not_boot=will_not_boot)
        start = evacuation_reservation(planned, view, context.opening(), proof)
        return planned, before.then(operation_lifecycle.begin(context, start))

    return until_current(attempt)


def _refuse_answering(context: EngineContext, lost: HostRecord) -> None:
    """Conflict for a host whose domains can be read: it is not lost."""
    facts = context.refresh([lost.name]).facts.get(lost.name)
    if facts is None:
        return
    if context.fencing.proof(lost) is not None:
        raise Conflict(
            f"{lost.name} answers: it is not off",
            why="its fence status or --confirm-off says that it is",
            next=f"vgpumgr host probe {lost.name}",
        )
    if not any(part.part in {"libvirt", "domains"} for part in facts.unknown):
        raise Conflict(
            f"{lost.name} answers: it is not lost",
            why="its running VMs can be moved without loss",
            next=f"vgpumgr host drain {lost.name}   (or switch it off first)",
        )


def _unfinished(context: EngineContext, name: str) -> Outcome:
    names = {vm.name: vm.spec for vm in on_host(context.ledger.vms(), name)}
    return operation_lifecycle.finish_leftovers(context, names, {EVACUATE})
