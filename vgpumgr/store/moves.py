"""Transitions made durable: which moves are legal, and what a task's move does to its VM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.journal import (
    OperationMoved,
    OperationState,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
    Transition,
)
from vgpumgr.model.vm import AllocationState, VmState
from vgpumgr.store.codec import printable
from vgpumgr.store.schema import allocation, operation, step, task, unit, vm

State = TypeVar("State", bound=StrEnum)
Moves = Mapping[State, frozenset[State]]

OPERATION_ENDS = frozenset(
    {OperationState.DONE, OperationState.UNDONE, OperationState.PARTLY, OperationState.FAILED}
)


def _from(to: State, *before: State) -> tuple[State, frozenset[State]]:
    """Into ``to`` from these states, and from itself: saying a thing twice changes nothing."""
    return to, frozenset({to, *before})


STEP_MOVES: Moves[StepState] = dict(
    (
        _from(StepState.PLANNED),
        _from(StepState.INTENT, StepState.PLANNED),
        _from(StepState.DONE, StepState.INTENT),
        _from(StepState.UNDO_INTENT, StepState.INTENT, StepState.DONE),
        _from(StepState.UNDONE, StepState.UNDO_INTENT),
    )
)
_OPEN_TASK = (TaskState.PENDING, TaskState.RUNNING, TaskState.UNDOING)
TASK_MOVES: Moves[TaskState] = dict(
    (
        _from(TaskState.PENDING),
        _from(TaskState.RUNNING, TaskState.PENDING),
        _from(TaskState.UNDOING, TaskState.PENDING, TaskState.RUNNING),
        _from(TaskState.DONE, TaskState.RUNNING),
        _from(TaskState.UNDONE, TaskState.UNDOING),
        _from(TaskState.FAILED, *_OPEN_TASK),
    )
)
_OPEN_OPERATION = (OperationState.RUNNING, OperationState.INTERRUPTED, OperationState.PARTLY)
OPERATION_MOVES: Moves[OperationState] = dict(
    _from(state, *_OPEN_OPERATION) for state in OperationState
)
VM_MOVES: Moves[VmState] = dict(
    (
        _from(VmState.RESERVED),
        _from(VmState.ACTIVE, VmState.RESERVED, VmState.DELETING),
        _from(VmState.DELETING, VmState.RESERVED, VmState.ACTIVE),
        _from(VmState.DELETED, VmState.RESERVED, VmState.ACTIVE, VmState.DELETING),
    )
)


def _is_one_of(column: ColumnElement[str], states: Iterable[StrEnum]) -> ColumnElement[bool]:
    """As plain comparisons: an IN list would be expanded anew at every execution."""
    return or_(*(column == value for value in sorted(state.value for state in states)))


# Statements are built once; they run thousands of times.
_MOVE_STEP = {
    to: update(step)
    .where(
        step.c.task == bindparam("in_task"),
        step.c.seq == bindparam("in_seq"),
        _is_one_of(step.c.state, before),
    )
    .values(state=to.value, detail=bindparam("to_detail"))
    for to, before in STEP_MOVES.items()
}
_MOVE_TASK = {
    to: update(task)
    .where(task.c.id == bindparam("in_task"), _is_one_of(task.c.state, before))
    .values(state=to.value, error=bindparam("to_error"))
    for to, before in TASK_MOVES.items()
}
_MOVE_VM = {
    to: update(vm)
    .where(vm.c.id == bindparam("in_vm"), _is_one_of(vm.c.state, before))
    .values(state=to.value, deleted_at=func.coalesce(vm.c.deleted_at, bindparam("to_end")))
    for to, before in VM_MOVES.items()
}
_RUN_VM = update(vm).where(vm.c.id == bindparam("in_vm")).values(running=bindparam("to_running"))
_HELD = (allocation.c.vm_id == bindparam("in_vm"), allocation.c.released_at.is_(None))
_GIVE_BACK = delete(unit).where(unit.c.allocation_id.in_(select(allocation.c.id).where(*_HELD)))
_RELEASE = (
    update(allocation)
    .where(*_HELD)
    .values(state=AllocationState.RELEASED.value, released_at=bindparam("to_end"))
)
_KEEP = update(allocation).where(*_HELD).values(state=bindparam("to_state"))


def apply(connection: Connection, transitions: Iterable[Transition], now: float) -> None:
    """Write the transitions in order; LedgerError at the first that is not legal."""
    for moved in transitions:
        match moved:
            case StepMoved():
                _step(connection, moved)
            case TaskMoved():
                _task(connection, moved, now)
            case OperationMoved():
                _operation(connection, moved, now)


def _step(connection: Connection, moved: StepMoved) -> None:
    values = {
        "in_task": moved.task,
        "in_seq": moved.seq,
        "to_detail": printable(moved.detail),
    }
    if connection.execute(_MOVE_STEP[moved.state], values).rowcount != 1:
        where = (step.c.task == moved.task) & (step.c.seq == moved.seq)
        raise _illegal(connection, step, where, f"step {moved.seq} of {moved.task}", moved.state)


def _task(connection: Connection, moved: TaskMoved, now: float) -> None:
    values = {"in_task": moved.task, "to_error": printable(moved.error)}
    if connection.execute(_MOVE_TASK[moved.state], values).rowcount != 1:
        raise _illegal(connection, task, task.c.id == moved.task, f"task {moved.task}", moved.state)
    if moved.vm_state is None and moved.vm_running is None and moved.allocations is None:
        return
    vm_id = moved.vm_id or _vm_of(connection, moved.task)
    if moved.allocations is not None:
        _allocations(connection, vm_id, moved.allocations, now)
    if moved.vm_state is not None:
        _vm_state(connection, vm_id, moved.vm_state, now)
    if moved.vm_running is not None:
        connection.execute(_RUN_VM, {"in_vm": vm_id, "to_running": moved.vm_running})


def _vm_of(connection: Connection, task_id: str) -> str:
    return str(connection.execute(select(task.c.vm_id).where(task.c.id == task_id)).scalar_one())


def _allocations(connection: Connection, vm_id: str, state: AllocationState, now: float) -> None:
    """Move what the VM holds; what was released before stays as history."""
    if state is AllocationState.RELEASED:
        connection.execute(_GIVE_BACK, {"in_vm": vm_id})
        connection.execute(_RELEASE, {"in_vm": vm_id, "to_end": now})
    else:
        connection.execute(_KEEP, {"in_vm": vm_id, "to_state": state.value})


def _vm_state(connection: Connection, vm_id: str, state: VmState, now: float) -> None:
    closed = now if state is VmState.DELETED else None
    changed = connection.execute(_MOVE_VM[state], {"in_vm": vm_id, "to_end": closed})
    if changed.rowcount != 1:
        raise _illegal(connection, vm, vm.c.id == vm_id, f"VM {vm_id}", state)


def _operation(connection: Connection, moved: OperationMoved, now: float) -> None:
    ends = moved.state in OPERATION_ENDS
    ended_at = moved.ended_at if moved.ended_at is not None else now
    values: dict[str, object] = {
        "state": moved.state.value,
        "ended_at": func.coalesce(operation.c.ended_at, ended_at) if ends else None,
    }
    if moved.summary:
        values["summary"] = printable(moved.summary)
    changed = connection.execute(
        update(operation)
        .where(
            operation.c.id == moved.operation,
            _is_one_of(operation.c.state, OPERATION_MOVES[moved.state]),
        )
        .values(**values)
    )
    if changed.rowcount != 1:
        where = operation.c.id == moved.operation
        raise _illegal(connection, operation, where, f"operation {moved.operation}", moved.state)


def _illegal(
    connection: Connection, table: Table, where: ColumnElement[bool], what: str, to: StrEnum
) -> LedgerError:
    state = connection.execute(select(table.c.state).where(where)).scalar()
    if state is None:
        return LedgerError(f"the ledger has no {what}", next="vgpumgr operation list")
    return LedgerError(
        f"{what} cannot go from {state} to {to}",
        why="somebody else moved it, or it has ended",
        next="vgpumgr operation list",
    )
