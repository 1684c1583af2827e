"""`adopt`: foreign VMs and layouts brought under management as they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr import domainxml
from vgpumgr.engine.adoption.candidate import AdoptionCandidate, AdoptionFindings, FoundPart
from vgpumgr.engine.adoption.foreign_domains import (
    Read,
    candidates,
    foreign,
    undeclared,
    unowned_parts,
)
from vgpumgr.engine.adoption.foreign_parts import slots_of
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_run
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.domain_plan import ownership
from vgpumgr.engine.steps.adoption_steps import AdoptDevice, MarkDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.gpu import Framework
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.operation import ADOPT, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord, VmState

# Pure but for the ids, which come from the caller.


@dataclass(frozen=True, slots=True)
class Adoption:
    """One VM as the ledger will have it, with what it holds and how it becomes ours."""

    vm: VmRecord
    allocations: tuple[Allocation, ...]
    steps: tuple[Step, ...]


def adoption(
    found: AdoptionCandidate, view: LedgerView, opening: OperationOpening, tenant: str
) -> Adoption:
    """The adoption of one candidate: its VM record, its allocations and its steps."""
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


def reservation(
    made: Sequence[Adoption], view: LedgerView, opening: OperationOpening
) -> Reservation:
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


def _task(opening: OperationOpening, operation: OperationRecord, made: Adoption) -> TaskRecord:
    vm = made.vm
    return opening.task(operation, ADOPT, made.steps, vm_id=vm.id, vm=vm.name, host=vm.host)


def _allocation(part: FoundPart, vm: VmRecord, opening: OperationOpening) -> Allocation:
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


def find(
    context: EngineContext, names: Collection[str] = ()
) -> tuple[AdoptionFindings, LedgerView]:
    """Probe these hosts (all without names) and say what could be adopted; nothing is changed."""
    failed = context.refresh(names).failed
    view = context.view()
    hosts = [
        host
        for host in view.hosts
        if (not names or host.name in names) and host.facts and host.name not in failed
    ]
    read = context.lanes.run(
        {host.name: partial(_read, context.hosts.open(host), foreign(view, host)) for host in hosts}
    )
    texts = {name: each for name, each in read.items() if not isinstance(each, Exception)}
    lost = {name: str(each) for name, each in read.items() if isinstance(each, Exception)}
    lost |= {name: error.message for name, error in failed.items()}
    known = [host for host in hosts if host.name in texts]
    findings = AdoptionFindings(
        candidates=tuple(c for h in known for c in candidates(view, h, texts[h.name])),
        loose=tuple(each for host in known for each in unowned_parts(view, host)),
        not_read=tuple(f"{name}: {why}" for name, why in sorted(lost.items())),
    )
    return findings, view


def _read(host: Host, domains: Sequence[DomainFacts]) -> dict[str, Read]:
    """Every definition; what libvirt would not tell is named."""
    return {domain.name: _definition(host, domain) for domain in domains if domain.persistent}


def _definition(host: Host, domain: DomainFacts) -> Read:
    try:
        xml = host.domains.xml(domain.name)
        return xml, domainxml.described(xml)
    except NotFound:
        return "is gone"
    except ValueError as error:
        return f"makes no sense: {error}"


def adopt(
    context: EngineContext, host: str, names: Sequence[str], *, tenant: str = "default"
) -> Outcome:
    """Adopt these domains of a host; what keeps one from it is raised, and nothing is changed.

    An adoption that was cut goes on; what was adopted before is left as it is.
    """
    before = _unfinished(context, names)
    vms = context.ledger.vms()
    done = {vm.name for vm in vms if vm.host == host and vm.definition}
    ready = [name for name in names if name not in done | {each.vm for each in before.vms}]
    if not ready:
        return before

    def attempt() -> Outcome:
        findings, view = find(context, (host,))
        if findings.not_read:
            error = context.ledger.host(host).last_error
            raise Conflict(f"{host} could not be read", why=error or findings.not_read[0])
        chosen = [_chosen(findings, host, name) for name in ready]
        made = _adoptions(context, chosen, view, tenant)
        return before.then(
            operation_lifecycle.begin(context, reservation(made, view, context.opening()))
        )

    return until_current(attempt)


def _unfinished(context: EngineContext, names: Collection[str]) -> Outcome:
    known = {vm.name: vm.spec for vm in context.ledger.vms() if vm.name in names}
    return operation_lifecycle.finish_leftovers(context, known, {ADOPT})


def _chosen(findings: AdoptionFindings, host: str, name: str) -> AdoptionCandidate:
    found = next((each for each in findings.candidates if each.name == name), None)
    if found is None:
        raise NotFound(
            f"{host} has no foreign domain {name}",
            why=f"there are {', '.join(c.name for c in findings.candidates) or 'none'}",
            next=f"vgpumgr adopt {host}",
        )
    if found.why:
        raise Conflict(
            f"{name} on {host} cannot be adopted",
            why="; ".join(found.why),
            next=f"vgpumgr adopt {host}",
        )
    return found


def _adoptions(
    context: EngineContext, chosen: Sequence[AdoptionCandidate], view: LedgerView, tenant: str
) -> list[Adoption]:
    """One after the other, so that two never take the same slots."""
    made: list[Adoption] = []
    for found in chosen:
        made.append(adoption(_placed(found, view), view, context.opening(), tenant))
        view = replace(view, allocations=(*view.allocations, *made[-1].allocations))
    return made


def _placed(found: AdoptionCandidate, view: LedgerView) -> AdoptionCandidate:
    """The candidate's assignments on slots that are still free; Conflict where none are left."""
    gpus = {gpu.id: gpu for gpu in view.gpus}
    parts: list[FoundPart] = []
    for part in found.parts:
        slots = slots_of(part, gpus[part.gpu], view.allocations, parts)
        if not slots:
            raise Conflict(f"the ledger has no free capacity for {part.device} of {found.name}")
        parts.append(replace(part, slots=slots))
    return replace(found, parts=tuple(parts))


def adopt_layout(context: EngineContext, host: str) -> tuple[LayoutPlan, Outcome]:
    """Declare how the GPUs of a host are partitioned now, so that its boots bring it back.

    Conflict where that would change any of them.
    """
    for error in context.refresh((host,)).failed.values():
        raise error
    specs = undeclared(context.view(), host)
    if not specs:
        raise NotFound(
            f"no GPU of {host} is partitioned without a layout", next=f"vgpumgr layout show {host}"
        )
    planned, _ = layout_run.plan(context, specs)
    changing = [change for change in planned.gpus if change.changes or change.refused]
    if changing:
        why = "; ".join(_lines(changing[0].differences, changing[0].refused))
        raise Conflict(
            f"{changing[0].device} on {host} cannot be adopted as it is",
            why=why,
            next=f"vgpumgr layout export {host}, then vgpumgr layout apply -f FILE",
        )
    return layout_run.apply(context, specs)


def _lines(differences: Sequence[str], refused: str) -> list[str]:
    return [*differences, *([refused] if refused else [])]
