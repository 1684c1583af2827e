"""Hosts enrolled into the fleet and removed from it, and attempts at either that were cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import running, unfinished
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.operations.operation_status import ways_on
from vgpumgr.engine.steps.layout_steps import ForgetLayout, KeepLayout
from vgpumgr.engine.steps.membership_steps import InstallHelper, JoinFleet, LeaveFleet, RemoveHelper
from vgpumgr.engine.steps.step import Step, from_record
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    ENROL,
    OF_HOSTS,
    REMOVE,
    OperationMoved,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.ports import Host


def resume(context: EngineContext, name: str) -> Outcome | None:
    """End it; None where nothing was begun, or it was being undone and is now, so that it may
    be begun anew.
    """
    task = _begun(context.ledger, name)
    if task is None:
        return None
    outcome = operation_lifecycle.resume(context, task.operation)
    undone = all(each.state is TaskState.UNDONE and each.error is None for each in outcome.vms)
    return None if undone else outcome


def abandon(context: EngineContext, name: str) -> None:
    """End the operation as failed without asking the host, whose row is closed. Conflict while
    another live process works on it.
    """
    task = _begun(context.ledger, name)
    if task is None:
        return
    if not context.ledger.claim_operation(task.operation):
        raise running(context.ledger, task.operation)
    why, now = "the host was removed", context.clock.now()
    context.ledger.record(
        TaskMoved(task=task.id, state=TaskState.FAILED, error=why, enrolled=False),
        OperationMoved(operation=task.operation, state=OperationState.FAILED, ended_at=now),
    )


def is_worked_on(ledger: Ledger, name: str) -> bool:
    """Does a live process bring this host in, or take it out?"""
    task = _begun(ledger, name)
    return task is not None and ledger.is_worked_on(task.operation)


def not_finished(ledger: Ledger, host: HostRecord) -> Conflict:
    """The error for a host that is half in the fleet, with the commands that help."""
    task = _begun(ledger, host.name)
    if task and ledger.is_worked_on(task.operation):
        return running(ledger, task.operation)
    message = f"host {host.name} ({host.address}) is {host.membership} the fleet"
    if task is None:
        return Conflict(message, next="vgpumgr operation list --open")
    return Conflict(
        message,
        why=f"operation {task.operation[:8]} is not finished",
        next=ways_on(ledger.operation(task.operation), ledger.tasks(task.operation)),
    )


def _begun(ledger: Ledger, name: str) -> TaskRecord | None:
    """The task that brings this host into the fleet, or out of it, and has not ended."""
    for operation in ledger.operations(open_only=True):
        for task in unfinished(ledger.tasks(operation.id)):
            if task.host == name and task.verb in OF_HOSTS:
                return task
    return None


def enrol(context: EngineContext, record: HostRecord, *, install: bool) -> Outcome:
    """Enrol a host whose key is pinned; an interrupted enrolment is resumed.

    Without ``install`` its helper is there, or it is only to be probed. Conflict where name or
    address is taken; a host that does not answer is not enrolled.
    """
    operation_lifecycle.finish_leftovers(context, {}, frozenset())  # those whose end alone was lost
    refuse_known(context.ledger, record)
    _refuse_other(context.ledger, record)
    before = resume(context, record.name)
    if before is not None:
        return before
    work = _enrol_steps(context, record, install=install)
    return operation_lifecycle.begin(context, _enrolment(record, work, context.opening()))


def refuse_known(ledger: Ledger, record: HostRecord) -> None:
    """Conflict where the host, its name or its address is in the fleet already."""
    for known in _namesakes(ledger, record):
        if known.membership is Membership.MEMBER:
            raise Conflict(
                f"host {known.name} ({known.address}) is enrolled already",
                next=f"vgpumgr host show {known.name}",
            )


def _refuse_other(ledger: Ledger, record: HostRecord) -> None:
    """Conflict where it is on its way out, or in, but not as is wished now."""
    for known in _namesakes(ledger, record):
        if known.membership is not Membership.JOINING or not _is_so(known, record):
            raise not_finished(ledger, known)


def _namesakes(ledger: Ledger, record: HostRecord) -> Iterator[HostRecord]:
    for known in ledger.hosts():
        if record.name == known.name or record.address == known.address:
            yield known


def _is_so(known: HostRecord, record: HostRecord) -> bool:
    """Is it to be enrolled as is wished now?"""
    return known == replace(
        record,
        membership=known.membership,
        generation=known.generation,
        facts=known.facts,
        observed_at=known.observed_at,
        last_error=known.last_error,
    )


def _enrol_steps(context: EngineContext, record: HostRecord, *, install: bool) -> tuple[Step, ...]:
    """The steps of an enrolment. The host is asked first: of a host that does not answer nothing is
    written.
    """
    host = context.hosts.open(record)
    if record.probe_only:
        host.probe()
        return ()
    found = host.installation.look()
    join = JoinFleet(fleet=context.ledger.fleet_id())
    return (InstallHelper(fresh=not found.helper), join) if install else (join,)


def _enrolment(record: HostRecord, work: Sequence[Step], opening: OperationOpening) -> Reservation:
    operation = opening.operation("host add")
    task = opening.host_task(operation, ENROL, work, record.name)
    return Reservation(operation=operation, tasks=(task,), joining=(record,))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRemoval:
    """The result of a removal: ``layouts`` are the GPUs whose layouts the host no longer keeps for
    its boots.
    """

    outcome: Outcome
    layouts: tuple[str, ...] = ()


def remove(context: EngineContext, name: str) -> HostRemoval:
    """Take a host out; a removal that was cut is resumed.

    Conflict while anything is allocated on it. InUse, and it stays as it was, while it carries
    claims that the ledger does not know.
    """
    operation_lifecycle.finish_leftovers(context, {}, frozenset())  # those whose end alone was lost
    record = context.ledger.host(name)
    if record.membership is Membership.JOINING:
        raise not_finished(context.ledger, record)
    outcome = resume(context, name)
    if outcome is None:
        refuse_used(context, name)
        start = _removal(record, _remove_steps(context, record), context.opening())
        outcome = operation_lifecycle.begin(context, start)
    return HostRemoval(outcome=outcome, layouts=_forgotten(context, outcome.operation))


def staying(view: LedgerView, name: str) -> tuple[str, ...]:
    """The things of the fleet that a removed host keeps, a line each: partitions of GPUs, copies of
    images.
    """
    found = [
        f"{gpu.facts.model} {gpu.facts.device} stays partitioned: {', '.join(parts)}"
        for gpu in view.gpus
        if gpu.host == name and (parts := tuple(_parts(gpu.facts)))
    ]
    found += [
        f"image {image.reference} stays: volume {image.volume} in storage pool {copy.pool}"
        for image in view.images
        for copy in image.copies
        if copy.host == name
    ]
    return tuple(found)


def _parts(facts: GpuFacts) -> Iterator[str]:
    if facts.mig is not None and facts.mig.enabled:
        instances = len(facts.mig.instances or ())
        yield f"MIG, {counted(instances, 'GPU instance')}" if instances else "MIG"
    if facts.vfs:
        yield counted(len(facts.vfs), "VF")


def refuse_used(context: EngineContext, name: str) -> None:
    """Conflict while VMs or allocations are on it."""
    held = [each for each in context.ledger.allocations() if each.host == name]
    vms = [vm.name for vm in context.ledger.vms() if vm.host == name]
    if held or vms:
        raise Conflict(
            f"host {name} is in use",
            why=f"on it: {counted(len(vms), 'VM')}, {counted(len(held), 'allocation')}",
            next=f"vgpumgr vm list, then delete those on {name}",
        )


def forget(context: EngineContext, name: str) -> None:
    """Take a host out that is gone for good: nothing is asked of it; what was begun there ends."""
    refuse_used(context, name)
    record = context.ledger.host(name)
    if record.membership is Membership.MEMBER:
        context.ledger.remove_host(name)
    else:
        abandon(context, name)


def _remove_steps(context: EngineContext, record: HostRecord) -> tuple[Step, ...]:
    """None where nothing of ours is there: it was only probed, or cleaned by hand."""
    if record.probe_only:
        return ()
    host, fleet = context.hosts.open(record), context.ledger.fleet_id()
    found = host.installation.look()
    if not found.helper and not found.state:
        return ()
    return (*_layouts(host, fleet), LeaveFleet(fleet=fleet), RemoveHelper())


def _layouts(host: Host, fleet: str) -> Iterator[ForgetLayout]:
    """A step for each layout of ours that the host itself knows of."""
    found = host.helper.call("claims", {}).get("claims")
    claims: Sequence[Mapping[str, Any]] = found if isinstance(found, list) else []
    for claim in claims:
        if claim["fleet"] == fleet and claim["wanted"]["kind"] == "layout":
            yield ForgetLayout(kept=_kept(claim))


def _kept(claim: Mapping[str, Any]) -> KeepLayout:
    declared = {key: part for key, part in claim["wanted"].items() if key not in {"kind", "gpu"}}
    return KeepLayout(
        device=claim["wanted"]["gpu"],
        gpu=claim["allocation"],
        generation=claim["generation"],
        layout=claim["vm"],
        parts=declared,
    )


def _removal(record: HostRecord, work: Sequence[Step], opening: OperationOpening) -> Reservation:
    operation = opening.operation("host remove")
    task = opening.host_task(operation, REMOVE, work, record.name)
    return Reservation(operation=operation, tasks=(task,), leaving=(record.name,))


def _forgotten(context: EngineContext, operation: str) -> tuple[str, ...]:
    tasks = context.ledger.tasks(operation)
    work = (from_record(record) for task in tasks for record in task.steps)
    return tuple(step.kept.device for step in work if isinstance(step, ForgetLayout))
