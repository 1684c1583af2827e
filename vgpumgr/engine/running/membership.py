"""What was begun with a host that is half in the fleet: found, resumed, given up."""

from __future__ import annotations

from vgpumgr.engine.running import operations
from vgpumgr.engine.running.leftovers import running, unfinished
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.running.status import ways_on
from vgpumgr.engine.session import Session
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import (
    OF_HOSTS,
    OperationMoved,
    OperationState,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.ports import Ledger


def go_on(session: Session, name: str) -> Outcome | None:
    """End it; None where nothing was begun, or it was being undone and is now, so that it may
    be begun anew.
    """
    task = _begun(session.ledger, name)
    if task is None:
        return None
    outcome = operations.resume(session, task.operation)
    undone = all(each.state is TaskState.UNDONE and each.error is None for each in outcome.vms)
    return None if undone else outcome


def give_up(session: Session, name: str) -> None:
    """End it as failed without asking the host, whose row is closed. Conflict while another live
    process works on it.
    """
    task = _begun(session.ledger, name)
    if task is None:
        return
    if not session.ledger.claim_operation(task.operation):
        raise running(session.ledger, task.operation)
    why, now = "the host was removed", session.clock.now()
    session.ledger.record(
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
