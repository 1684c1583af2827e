"""The return of an evacuated host: what evacuated VMs left there is found and removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine.hosts.evacuation_plan import on_host
from vgpumgr.engine.hosts.host_evacuation import KIND
from vgpumgr.engine.hosts.host_marks import mark
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.vm_creation import release_steps
from vgpumgr.engine.steps.evacuation_steps import LeaveDomain, runs_there
from vgpumgr.engine.steps.nic_steps import ReleaseNicFunction
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.domain import OFF, DomainFacts
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable, PartlyDone
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    EVACUATE,
    LEAVE,
    Reservation,
    TaskState,
)

# Without these parts of a probe, what is left cannot be told.
_NEEDED = ("libvirt", "domains", "claims", "helper", "mdevs")


@dataclass(frozen=True, slots=True)
class EvacuationRemains:
    """The remains of an evacuated VM: its domain, claims of allocations released since, and of VFs
    of NICs.
    """

    vm_id: str
    vm: str
    domain: DomainFacts | None
    held: tuple[Allocation, ...]
    functions: tuple[str, ...] = ()

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
    functions = {vm: tuple(_functions(view.fleet, facts, vm)) for vm in gone}
    return tuple(
        EvacuationRemains(id_, name, domains.get(id_), tuple(held.get(id_, ())), functions[id_])
        for id_, name in sorted(gone.items(), key=lambda item: item[1])
        if id_ in domains or id_ in held or functions[id_]
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
    for address in left.functions:
        yield ReleaseNicFunction(name=left.vm, vm_id=left.vm_id, address=address)


def _functions(fleet: str, facts: HostFacts, vm_id: str) -> Iterator[str]:
    """The VFs of the host's NICs that it still claims for a VM."""
    for claim in facts.claims:
        if claim.fleet == fleet and claim.allocation == vm_id:
            yield str(claim.wanted.get("address", ""))


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
