"""Operations in the ledger: records with tasks and steps, recording of transitions, leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, bindparam, select

from vgpumgr.model.codec import dump, load_mapping, printable
from vgpumgr.model.errors import NotFound
from vgpumgr.model.operation import (
    OperationMoved,
    OperationRecord,
    OperationState,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
    Transition,
)
from vgpumgr.store.database import notify
from vgpumgr.store.database.commits import GroupWriter, retried
from vgpumgr.store.database.connections import Database
from vgpumgr.store.database.process_locks import ProcessLocks
from vgpumgr.store.ledger import transitions as ledger_transitions
from vgpumgr.store.ledger.base import LedgerBase
from vgpumgr.store.ledger.rows import decodes, not_found
from vgpumgr.store.ledger.state_changes import is_one_of
from vgpumgr.store.schema import operation, step, task

_EVERY = select(operation).order_by(operation.c.number.desc())
_OPEN = _EVERY.where(
    is_one_of(operation.c.state, (OperationState.RUNNING, OperationState.INTERRUPTED))
)
_STEPS = (
    select(step)
    .join(task)
    .where(task.c.operation == bindparam("in_operation"))
    .order_by(step.c.seq)
)
_TASKS = select(task).where(task.c.operation == bindparam("in_operation")).order_by(task.c.position)


def list_operations(
    connection: Connection, *, open_only: bool = False, since: float | None = None
) -> tuple[OperationRecord, ...]:
    """Operations, newest first; ``open_only`` leaves those that run or wait, ``since`` these and
    those that ended after that time (Unix seconds).
    """
    query = _OPEN if open_only else _EVERY
    if since is not None:
        query = query.where(operation.c.ended_at.is_(None) | (operation.c.ended_at > since))
    return tuple(operation_of(row) for row in connection.execute(query))


def get_operation(connection: Connection, operation_id: str) -> OperationRecord:
    """One operation by id or unique prefix; NotFound otherwise."""
    starts = operation.c.id.startswith(operation_id, autoescape=True)
    query = select(operation).where(starts).order_by(operation.c.id).limit(4)
    rows = connection.execute(query).all() if operation_id else []
    found = [row for row in rows if row.id == operation_id] or rows
    if len(found) > 1:
        raise NotFound(
            f"more than one operation starts with {operation_id}",
            why=", ".join(row.id for row in found),
            next=f"vgpumgr operation show {found[0].id}",
        )
    if len(found) != 1:
        known = connection.execute(select(operation.c.id)).scalars()
        raise not_found("operation", operation_id, known)
    return operation_of(found[0])


@decodes(operation)
def operation_of(row: Any) -> OperationRecord:
    """The operation of a whole row."""
    return OperationRecord(
        id=row.id,
        kind=row.kind,
        state=OperationState(row.state),
        epoch=row.epoch,
        started_at=row.started_at,
        ended_at=row.ended_at,
        by=row.started_by,
        summary=row.summary,
        worker=row.worker,
        left_until=row.left_until,
    )


def operation_row(record: OperationRecord) -> dict[str, object]:
    """The row of an operation."""
    return {
        "id": record.id,
        "kind": record.kind,
        "state": record.state.value,
        "epoch": record.epoch,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "started_by": printable(record.by),
        "summary": printable(record.summary),
    }


def list_tasks(connection: Connection, operation_id: str) -> tuple[TaskRecord, ...]:
    """The tasks of an operation with their steps, in the order they were written."""
    steps: dict[str, list[StepRecord]] = {}
    which = {"in_operation": operation_id}
    for row in connection.execute(_STEPS, which):
        steps.setdefault(row.task, []).append(step_of(row))
    rows = connection.execute(_TASKS, which)
    return tuple(task_of(row, tuple(steps.get(row.id, ()))) for row in rows)


@decodes(task)
def task_of(row: Any, steps: tuple[StepRecord, ...]) -> TaskRecord:
    """The task of a whole row, with its steps."""
    return TaskRecord(
        id=row.id,
        operation=row.operation,
        vm_id=row.vm_id,
        vm=row.vm,
        host=row.host,
        verb=row.verb,
        steps=steps,
        state=TaskState(row.state),
        error=row.error,
        peer=row.peer,
    )


def task_row(record: TaskRecord, position: int) -> dict[str, object]:
    """The row of a task; ``position`` is its place in the operation."""
    return {
        "id": record.id,
        "operation": record.operation,
        "position": position,
        "vm_id": record.vm_id,
        "vm": record.vm,
        "host": record.host,
        "verb": record.verb,
        "state": record.state.value,
        "error": printable(record.error),
        "peer": record.peer,
    }


@decodes(step)
def step_of(row: Any) -> StepRecord:
    """The step of a whole row."""
    return StepRecord(
        seq=row.seq,
        kind=row.kind,
        args=load_mapping(row.args),
        state=StepState(row.state),
        detail=row.detail,
        host=row.host,
    )


def step_row(record: StepRecord, task_id: str) -> dict[str, object]:
    """The row of a task's step."""
    return {
        "task": task_id,
        "seq": record.seq,
        "kind": record.kind,
        "args": dump(record.args),
        "state": record.state.value,
        "detail": printable(record.detail),
        "host": record.host,
    }


class OperationLedger(LedgerBase):
    """Operations with their tasks and steps; what is recorded shares its commit."""

    def __init__(
        self, database: Database, claims: ProcessLocks, now: Callable[[], float], by: str = ""
    ) -> None:
        super().__init__(database, claims, now, by)
        self._writer: GroupWriter[Sequence[Transition]] = GroupWriter(self._commit)

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable together; LedgerError when one of them is not legal."""
        if transitions:
            self._writer.submit(transitions)

    @retried
    def _commit(self, batch: Sequence[Sequence[Transition]]) -> None:
        transitions = list(chain.from_iterable(batch))
        with self._claiming.moved(transitions) as connection:
            ledger_transitions.apply_transitions(connection, transitions, self._stamp())
            if any(isinstance(each, OperationMoved) for each in transitions):
                notify.notify(connection)

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations, newest first; ``open_only`` leaves those that run or wait, ``since`` these
        and those that ended after that time.
        """
        with self._database.read() as connection:
            return list_operations(connection, open_only=open_only, since=since)

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""
        with self._database.read() as connection:
            return get_operation(connection, operation_id)

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation (by its whole id) with their steps."""
        with self._database.read() as connection:
            return list_tasks(connection, operation_id)


class LeaseLedger(OperationLedger):
    """Claims on operations, and on other names that one process at a time may hold."""

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Taking one over from a process that may still run raises the epoch.
        """
        return self._claiming.operation(self.operation(operation_id).id)

    def leave_operations(self, until: float) -> None:
        """Leave the open ones of this process to whoever interrupted them, until then."""
        self._claiming.leave(until)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claiming.is_worked_on(self.operation(operation_id).id)

    def claim(self, name: str) -> bool:
        """Hold a name (``serve``, ``host:NAME``); False while another live process does."""
        return self._claiming.name(name)

    def is_claimed(self, name: str) -> bool:
        """Does a live process hold that name? Nothing is claimed."""
        return self._claiming.is_named(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claiming.release(name)

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in."""
        return self._claiming.spoken_epoch()

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        return self._claiming.fresh_epoch()
