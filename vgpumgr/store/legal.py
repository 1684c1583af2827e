"""Which states follow which. Anything else is an error of whoever asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from vgpumgr.model.journal import OperationState, StepState, TaskState
from vgpumgr.model.vm import VmState

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
