"""Hosts enrolled into the fleet; enrolments and removals that were cut, resumed or abandoned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import running, unfinished
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.operations.operation_status import ways_on
from vgpumgr.engine.steps.membership_steps import InstallHelper, JoinFleet
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    ENROL,
    OF_HOSTS,
    OperationMoved,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)


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
    for known in ledger.namesakes(record.name, record.address):
        if known.membership is Membership.MEMBER:
            raise Conflict(
                f"host {known.name} ({known.address}) is enrolled already",
                next=f"vgpumgr host show {known.name}",
            )


def _refuse_other(ledger: Ledger, record: HostRecord) -> None:
    """Conflict where it is on its way out, or in, but not as is wished now."""
    for known in ledger.namesakes(record.name, record.address):
        if known.membership is not Membership.JOINING or not _is_so(known, record):
            raise not_finished(ledger, known)


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
