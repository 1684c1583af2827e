"""`host evacuate`: VMs of a lost host recreated elsewhere, and their remains removed when it
returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from vgpumgr.engine.reservation.vm_creation import VmSites, allocate, device_steps, release_steps
from vgpumgr.engine.reservation.vm_volumes import VmSite
from vgpumgr.engine.steps.domain_steps import DefineDomain
from vgpumgr.engine.steps.evacuation_steps import LeaveDomain, StartEvacuated, runs_there
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF, DomainFacts
from vgpumgr.model.errors import Conflict, DeadlineExceeded, HostUnreachable, PartlyDone
from vgpumgr.model.host import HostFacts, HostRecord, Proof
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    EVACUATE,
    LEAVE,
    OperationRecord,
    Reservation,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import Allocation, AllocationState, VmPlace, VmRecord, VmState

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
        host_generations={host.name: host.generation for host in view.hosts if host.name in hosts},
    )


def _anew(each: RecreatedVm, site: VmSite, opening: OperationOpening) -> _Anew:
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
    xml = domain_xml(vm, each.held, site)
    starts = site.autostarts(vm.spec)
    yield DefineDomain(name=vm.name, vm_id=vm.id, xml=xml, autostart=starts)
    if vm.running:
        yield StartEvacuated(name=vm.name, vm_id=vm.id)


# Without these parts of a probe, what is left cannot be told.
_NEEDED = ("libvirt", "domains", "claims", "helper", "mdevs")


@dataclass(frozen=True, slots=True)
class EvacuationRemains:
    """The remains of an evacuated VM: its domain, and claims of allocations released since."""

    vm_id: str
    vm: str
    domain: DomainFacts | None
    held: tuple[Allocation, ...]

    @property
    def runs(self) -> bool:
        """Is its old domain not off?"""
        return self.domain is not None and self.domain.state not in OFF


def unread_hosts(facts: HostFacts) -> str:
    """Why nothing can be said of a host; empty where it was read."""
    for part in facts.unknown:
        if part.part.split(" ")[0] in _NEEDED:
            return f"{part.part}: {part.why}"
    return ""


def remains_on(ledger: Ledger, view: LedgerView, facts: HostFacts) -> tuple[EvacuationRemains, ...]:
    """The remains on a host of VMs that were evacuated and are elsewhere, or deleted, since."""
    here = {vm.id for vm in on_host(view.vms, facts.host)}
    gone = {id_: name for id_, name in _evacuated(ledger, facts.host).items() if id_ not in here}
    domains = _domains(view.fleet, facts, gone)
    held = _claimed(ledger, view.fleet, facts, gone)
    return tuple(
        EvacuationRemains(id_, name, domains.get(id_), tuple(held.get(id_, ())))
        for id_, name in sorted(gone.items(), key=lambda item: item[1])
        if id_ in domains or id_ in held
    )


def cleanup_reservation(
    left: Sequence[EvacuationRemains], host: str, opening: OperationOpening
) -> Reservation:
    """A task for each VM."""
    operation = opening.operation("host return")
    return Reservation(
        operation=operation,
        tasks=tuple(
            opening.task(
                operation,
                LEAVE,
                tuple(_cleanup(each)),
                vm_id=each.vm_id,
                vm=each.vm,
                host=host,
            )
            for each in left
        ),
    )


def _cleanup(left: EvacuationRemains) -> Iterator[Step]:
    if left.domain is not None:
        yield LeaveDomain(name=left.domain.name, vm_id=left.vm_id)
    yield from release_steps(left.held)


def _evacuated(ledger: Ledger, lost: str) -> dict[str, str]:
    """Ids and names of the VMs whose evacuation from the host is done."""
    return {
        task.vm_id: task.vm
        for operation in ledger.operations()
        if operation.kind == KIND
        for task in ledger.tasks(operation.id)
        if (task.verb, task.peer, task.state) == (EVACUATE, lost, TaskState.DONE)
    }


def _domains(fleet: str, facts: HostFacts, gone: Mapping[str, str]) -> dict[str, DomainFacts]:
    return {
        each.ownership.vm_id: each
        for each in facts.domains
        if each.ownership is not None
        and each.ownership.fleet == fleet
        and each.ownership.vm_id in gone
    }


def _claimed(
    ledger: Ledger, fleet: str, facts: HostFacts, gone: Mapping[str, str]
) -> dict[str, list[Allocation]]:
    """Released allocations of evacuated VMs that the host still claims for them."""
    claims = {claim.allocation for claim in facts.claims if claim.fleet == fleet}
    found: dict[str, list[Allocation]] = {}
    for each in ledger.allocations(released=True):
        released = each.state is AllocationState.RELEASED and each.host == facts.host
        if released and each.vm_id in gone and each.id in claims:
            found.setdefault(each.vm_id, []).append(each)
    return found


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


def remove_remains(context: EngineContext, name: str) -> Outcome:
    """Take away what evacuated VMs left on a host that answers again; then it is evacuated no
    more, though still in maintenance.

    Conflict when one of them is not off there: that domain, and what it uses, is left alone.
    """
    left = remains_on(context.ledger, context.view(), _facts(context, name))
    idle = [each for each in left if not each.runs]
    start = cleanup_reservation(idle, name, context.opening())
    outcome = operation_lifecycle.begin(context, start)
    for each in left:
        if each.domain is not None and each.runs:
            raise runs_there(each.vm, name, str(each.domain.state))
    outcome.raise_for_failure()
    if not idle or not remains_on(context.ledger, context.view(), _facts(context, name)):
        mark(context, name, evacuated=False)
    return outcome


def step(context: EngineContext, host: str) -> Outcome:
    """:func:`remove_remains` for a loop: no effect without remains, or while the host is away."""
    if not context.ledger.host(host).evacuated:
        return Outcome()
    try:
        return remove_remains(context, host)
    except (HostUnreachable, DeadlineExceeded):
        return Outcome()


def _facts(context: EngineContext, name: str) -> HostFacts:
    """The facts of a fresh probe; raises where it does not read enough to find remains."""
    observed = context.refresh([name])
    if name in observed.failed:
        raise observed.failed[name]
    facts = observed.facts[name]
    unread = unread_hosts(facts)
    if unread:
        raise PartlyDone(
            f"cannot tell what is left on {name}",
            why=f"could not read {unread}",
            next=f"vgpumgr doctor {name}",
        )
    return facts


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
