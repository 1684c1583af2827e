"""Candidates → everything that adopting them writes before its first effect.

Pure but for the ids, which come from the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpumgr import domainxml
from vgpumgr.engine.adoption.candidate import Candidate, FoundPart
from vgpumgr.engine.creation import ownership
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import AdoptDevice, MarkDomain, Step
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.gpu import Framework
from vgpumgr.model.journal import ADOPT, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.vm import Allocation, VmRecord, VmState


@dataclass(frozen=True, slots=True)
class Adoption:
    """One VM as the ledger will have it, with what it holds and how it becomes ours."""

    vm: VmRecord
    allocations: tuple[Allocation, ...]
    steps: tuple[Step, ...]


def adoption(found: Candidate, view: LedgerView, opening: Opening, tenant: str) -> Adoption:
    """What becomes of one candidate that can be adopted."""
    assert found.spec is not None and found.possible, "what cannot be adopted is refused before"
    vm = VmRecord(
        id=opening.new_uuid(),
        spec=replace(found.spec, tenant=tenant),
        host=found.host,
        state=VmState.RESERVED,
        running=found.running,
        generation=1,
        numa_node=found.numa_node,
        cpus=found.cpus,
        created_at=opening.now,
        definition=domainxml.without_mark(found.xml),
    )
    held = tuple(_allocation(part, vm, opening) for part in found.parts)
    mark = ownership(vm, held, view.fleet)
    steps = (
        *(AdoptDevice(allocation=each) for each in held),
        MarkDomain(name=vm.name, uuid=found.uuid, mark=mark),
    )
    return Adoption(vm, held, steps)


def reservation(made: Sequence[Adoption], view: LedgerView, opening: Opening) -> Reservation:
    """One operation with a task per VM."""
    operation = opening.operation(ADOPT)
    held = tuple(each for adoption in made for each in adoption.allocations)
    gpus, hosts = {each.gpu for each in held}, {each.vm.host for each in made}
    return Reservation(
        operation=operation,
        tasks=tuple(_task(opening, operation, each) for each in made),
        vms=tuple(each.vm for each in made),
        allocations=held,
        gpu_generations={each.id: each.generation for each in view.gpus if each.id in gpus},
        host_generations={each.name: each.generation for each in view.hosts if each.name in hosts},
    )


def _task(opening: Opening, operation: OperationRecord, made: Adoption) -> TaskRecord:
    vm = made.vm
    return opening.task(operation, ADOPT, made.steps, vm_id=vm.id, vm=vm.name, host=vm.host)


def _allocation(part: FoundPart, vm: VmRecord, opening: Opening) -> Allocation:
    offer = part.offer
    return Allocation(
        id=opening.new_uuid(),
        vm_id=vm.id,
        vm=vm.name,
        host=vm.host,
        gpu=part.gpu,
        profile=offer.profile,
        framework=Framework(offer.framework),
        device=part.device,
        slots=part.slots,
        type_id=offer.type_id,
        parent=part.parent,
        companions=part.companions,
        vf=part.vf,
        instance=part.instance,
        placement_id=part.placement_id,
        created_at=opening.now,
    )
