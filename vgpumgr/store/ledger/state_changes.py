"""Changes of state: the legal transitions, and for each state the statement with its audit record.

Statements are built once; they run thousands of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Update, bindparam, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.operation import OperationState, StepState, TaskState
from vgpumgr.model.vm import AllocationState, VmState
from vgpumgr.store.ledger.audit_trail import (
    of_allocations,
    of_operations,
    of_steps,
    of_tasks,
    of_vms,
)
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
        _from(VmState.ACTIVE, VmState.RESERVED, VmState.MIGRATING, VmState.DELETING),
        _from(VmState.MIGRATING, VmState.ACTIVE),
        _from(VmState.SHELVED, VmState.RESERVED, VmState.ACTIVE),
        _from(VmState.DELETING, VmState.RESERVED, VmState.ACTIVE, VmState.SHELVED),
        _from(VmState.DELETED, VmState.RESERVED, VmState.ACTIVE, VmState.DELETING),
    )
)


# Parameters of a statement; those that it does not name are ignored.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of rows; ``told`` is executed just before it, with the same parameters."""

    change: Update
    told: Insert | None = None

    def run(self, connection: Connection, values: Values | Sequence[Values]) -> int:
        """Tell the trail, then change; how many rows changed."""
        if self.told is not None:
            connection.execute(self.told, values)
        return connection.execute(self.change, values).rowcount


def is_one_of(column: ColumnElement[str], states: Iterable[StrEnum]) -> ColumnElement[bool]:
    """As plain comparisons: an IN list would be expanded anew at every execution."""
    return or_(*(column == value for value in sorted(state.value for state in states)))


_STEP = (step.c.task == bindparam("in_task"), step.c.seq == bindparam("in_seq"))
# The journal keeps every step; the trail tells of those that were undone.
_TOLD_STEPS = {StepState.UNDONE}
STEPS = {
    to: StateChange(
        update(step)
        .where(*_STEP, is_one_of(step.c.state, before))
        .values(state=to.value, detail=bindparam("to_detail")),
        of_steps(f"step.{to}", *_STEP, step.c.state != to.value) if to in _TOLD_STEPS else None,
    )
    for to, before in STEP_MOVES.items()
}

_TASK = task.c.id == bindparam("in_task")
_TOLD_TASKS = {TaskState.DONE, TaskState.UNDONE, TaskState.FAILED}
TASKS = {
    to: StateChange(
        update(task)
        .where(_TASK, is_one_of(task.c.state, before))
        .values(state=to.value, error=bindparam("to_error")),
        of_tasks(f"task.{to}", _TASK, task.c.state != to.value) if to in _TOLD_TASKS else None,
    )
    for to, before in TASK_MOVES.items()
}

_VM = vm.c.id == bindparam("in_vm")
VMS = {
    to: StateChange(
        update(vm)
        .where(_VM, is_one_of(vm.c.state, before))
        .values(state=to.value, deleted_at=func.coalesce(vm.c.deleted_at, bindparam("to_end"))),
        of_vms(f"vm.{to}", _VM, vm.c.state != to.value),
    )
    for to, before in VM_MOVES.items()
}
# What the user wants of a VM; one that is deleted is wanted no more, which needs no record.
RUNS = {
    wanted: StateChange(
        update(vm).where(_VM).values(running=wanted),
        of_vms(
            "vm.started" if wanted else "vm.stopped",
            _VM,
            vm.c.running.is_not(wanted),
            vm.c.state != VmState.DELETED.value,
        ),
    )
    for wanted in (True, False)
}

_HELD = (allocation.c.vm_id == bindparam("in_vm"), allocation.c.released_at.is_(None))
GIVE_BACK = delete(unit).where(unit.c.allocation_id.in_(select(allocation.c.id).where(*_HELD)))
ALLOCATIONS = {
    to: StateChange(
        update(allocation)
        .where(*_HELD)
        .values(
            state=to.value,
            released_at=bindparam("to_end") if to is AllocationState.RELEASED else None,
        ),
        of_allocations(f"allocation.{to}", *_HELD, allocation.c.state != to.value),
    )
    for to in AllocationState
}

_OPERATION = operation.c.id == bindparam("in_operation")
OPERATIONS = {
    to: StateChange(
        update(operation)
        .where(_OPERATION, is_one_of(operation.c.state, before))
        .values(
            state=to.value,
            ended_at=func.coalesce(operation.c.ended_at, bindparam("to_end"))
            if to in OPERATION_ENDS
            else None,
            summary=func.coalesce(bindparam("to_summary"), operation.c.summary),
            left_until=bindparam("to_left"),
        ),
        of_operations(f"operation.{to}", _OPERATION, operation.c.state != to.value),
    )
    for to, before in OPERATION_MOVES.items()
}
