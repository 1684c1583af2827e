"""What evacuated VMs left on a host that has returned: found by the ledger's history, and taken
away only where nothing of it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine.evacuation.planning import on_host
from vgpumgr.engine.evacuation.reserving import KIND
from vgpumgr.engine.reserving.lifecycle import release_steps
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import OFF, LeaveDomain, Step
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.journal import EVACUATE, LEAVE, Reservation, TaskState
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import Allocation, AllocationState

# Without these parts of a probe, what is left cannot be told.
_NEEDED = ("libvirt", "domains", "claims", "helper", "mdevs")


@dataclass(frozen=True, slots=True)
class Left:
    """What one evacuated VM left: its domain, and claims of what it held (released since)."""

    vm_id: str
    vm: str
    domain: DomainFacts | None
    held: tuple[Allocation, ...]

    @property
    def runs(self) -> bool:
        """Is its old domain not off?"""
        return self.domain is not None and self.domain.state not in OFF


def unread(facts: HostFacts) -> str:
    """Why nothing can be said of a host; empty where it was read."""
    for part in facts.unknown:
        if part.part.split(" ")[0] in _NEEDED:
            return f"{part.part}: {part.why}"
    return ""


def left_on(ledger: Ledger, view: LedgerView, facts: HostFacts) -> tuple[Left, ...]:
    """What is left there of VMs that were evacuated and are elsewhere, or deleted, since."""
    here = {vm.id for vm in on_host(view.vms, facts.host)}
    gone = {id_: name for id_, name in _evacuated(ledger, facts.host).items() if id_ not in here}
    domains = _domains(view.fleet, facts, gone)
    held = _claimed(ledger, view.fleet, facts, gone)
    return tuple(
        Left(id_, name, domains.get(id_), tuple(held.get(id_, ())))
        for id_, name in sorted(gone.items(), key=lambda item: item[1])
        if id_ in domains or id_ in held
    )


def reservation(left: Sequence[Left], host: str, opening: Opening) -> Reservation:
    """A task for each VM."""
    operation = opening.operation("host return")
    return Reservation(
        operation=operation,
        tasks=tuple(
            opening.task(
                operation,
                LEAVE,
                tuple(_work(each)),
                vm_id=each.vm_id,
                vm=each.vm,
                host=host,
            )
            for each in left
        ),
    )


def _work(left: Left) -> Iterator[Step]:
    if left.domain is not None:
        yield LeaveDomain(name=left.domain.name, vm_id=left.vm_id)
    yield from release_steps(left.held)


def _evacuated(ledger: Ledger, lost: str) -> dict[str, str]:
    """Ids and names of the VMs whose evacuation from there is done."""
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
    """What they held there, that the ledger has released and the host still claims for them."""
    claims = {claim.allocation for claim in facts.claims if claim.fleet == fleet}
    found: dict[str, list[Allocation]] = {}
    for each in ledger.allocations(released=True):
        released = each.state is AllocationState.RELEASED and each.host == facts.host
        if released and each.vm_id in gone and each.id in claims:
            found.setdefault(each.vm_id, []).append(each)
    return found
