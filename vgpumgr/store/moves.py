"""Transitions made durable, and what a task's move does to its VM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, Update, bindparam, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.journal import (
    OperationMoved,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
    Transition,
)
from vgpumgr.model.vm import AllocationState, VmState
from vgpumgr.store.arrivals import arrive
from vgpumgr.store.codec import printable
from vgpumgr.store.layouts import settle
from vgpumgr.store.legal import (
    OPERATION_ENDS,
    OPERATION_MOVES,
    STEP_MOVES,
    TASK_MOVES,
    VM_MOVES,
    State,
)
from vgpumgr.store.schema import allocation, operation, step, task, unit, vm

Item = TypeVar("Item")


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
    """Write the transitions; LedgerError when one is not legal.

    Moves of one kind into one state go to the database together: a commit that serves many lanes
    holds hundreds of them. Kinds touch different rows, and states are written in the order of a
    life, so nothing depends on the order of the callers.
    """
    moves = list(transitions)
    _steps(connection, [moved for moved in moves if isinstance(moved, StepMoved)])
    _tasks(connection, [moved for moved in moves if isinstance(moved, TaskMoved)], now)
    for moved in moves:
        if isinstance(moved, OperationMoved):
            _operation(connection, moved, now)


def _steps(connection: Connection, moves: Iterable[StepMoved]) -> None:
    for state, group in _by_state(moves, StepState, lambda moved: moved.state):
        values = [
            {"in_task": moved.task, "in_seq": moved.seq, "to_detail": printable(moved.detail)}
            for moved in group
        ]
        for number in _refused(connection, _MOVE_STEP[state], values):
            moved = group[number]
            where = (step.c.task == moved.task) & (step.c.seq == moved.seq)
            raise _illegal(connection, step, where, f"step {moved.seq} of {moved.task}", state)


def _tasks(connection: Connection, moves: Sequence[TaskMoved], now: float) -> None:
    for state, group in _by_state(moves, TaskState, lambda moved: moved.state):
        values = [{"in_task": moved.task, "to_error": printable(moved.error)} for moved in group]
        for number in _refused(connection, _MOVE_TASK[state], values):
            id_ = group[number].task
            raise _illegal(connection, task, task.c.id == id_, f"task {id_}", state)
    with_effect = [moved for moved in moves if _has_effect(moved)]
    named = [(moved.vm_id or _vm_of(connection, moved.task), moved) for moved in with_effect]
    _allocations(connection, named, now)
    _vm_states(connection, named, now)
    runs = [
        {"in_vm": vm_id, "to_running": moved.vm_running}
        for vm_id, moved in named
        if moved.vm_running is not None
    ]
    if runs:
        connection.execute(_RUN_VM, runs)
    for vm_id, moved in named:
        if moved.arrived is not None:
            arrive(connection, vm_id, arrived=moved.arrived, now=now)
    settle(connection, ((moved.layout_gpu, moved.task) for moved in moves if moved.layout_gpu))


def _has_effect(moved: TaskMoved) -> bool:
    return (moved.vm_state, moved.vm_running, moved.allocations) != (None, None, None)


def _vm_of(connection: Connection, task_id: str) -> str:
    return str(connection.execute(select(task.c.vm_id).where(task.c.id == task_id)).scalar_one())


def _allocations(
    connection: Connection, named: Iterable[tuple[str, TaskMoved]], now: float
) -> None:
    """Move what the VMs hold; what was released before stays as history."""
    wanted = [(vm_id, moved.allocations) for vm_id, moved in named if moved.allocations]
    for state, group in _by_state(wanted, AllocationState, lambda pair: pair[1]):
        if state is AllocationState.RELEASED:
            connection.execute(_GIVE_BACK, [{"in_vm": vm_id} for vm_id, _ in group])
            connection.execute(_RELEASE, [{"in_vm": vm_id, "to_end": now} for vm_id, _ in group])
        else:
            values = [{"in_vm": vm_id, "to_state": state.value} for vm_id, _ in group]
            connection.execute(_KEEP, values)


def _vm_states(connection: Connection, named: Iterable[tuple[str, TaskMoved]], now: float) -> None:
    wanted = [(vm_id, moved.vm_state) for vm_id, moved in named if moved.vm_state]
    for state, group in _by_state(wanted, VmState, lambda pair: pair[1]):
        closed = now if state is VmState.DELETED else None
        values = [{"in_vm": vm_id, "to_end": closed} for vm_id, _ in group]
        for number in _refused(connection, _MOVE_VM[state], values):
            id_ = group[number][0]
            raise _illegal(connection, vm, vm.c.id == id_, f"VM {id_}", state)


def _by_state(
    items: Iterable[Item], states: Iterable[State], state_of: Callable[[Item], State]
) -> Iterator[tuple[State, list[Item]]]:
    """The items grouped by state, in the order in which the states are declared."""
    groups: dict[State, list[Item]] = {}
    for item in items:
        groups.setdefault(state_of(item), []).append(item)
    return ((state, groups[state]) for state in states if state in groups)


def _refused(
    connection: Connection, move: Update, values: Sequence[dict[str, Any]]
) -> Iterator[int]:
    """Run a move for many rows; the numbers of those that it did not change.

    Only when some were refused are they tried one by one: a move into the state that a row is in
    already changes nothing.
    """
    if connection.execute(move, values).rowcount == len(values):
        return
    for number, each in enumerate(values):
        if connection.execute(move, each).rowcount != 1:
            yield number


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
