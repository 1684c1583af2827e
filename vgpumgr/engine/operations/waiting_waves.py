"""Tasks that wait for their wave of a rolling change: which they are, how they begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vgpumgr.model.operation import (
    FINAL_TASKS,
    ROLL,
    StepMoved,
    StepState,
    TaskMoved,
    TaskRecord,
    TaskState,
    Transition,
)


def waits(task: TaskRecord) -> bool:
    """Does it wait for its wave?"""
    return task.verb == ROLL and task.state is TaskState.PENDING


def due(tasks: Iterable[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks that have not ended, and wait for nothing."""
    return tuple(each for each in tasks if each.state not in FINAL_TASKS and not waits(each))


def without_begun(tasks: Iterable[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks without those whose wave has begun: another task of the VM has its change."""
    begun = {TaskState.RUNNING, TaskState.DONE}
    return tuple(each for each in tasks if each.verb != ROLL or each.state not in begun)


def begin(tasks: Iterable[TaskRecord]) -> Iterator[Transition]:
    """Their wave begins: the wait is over."""
    for task in tasks:
        for seq in (step.seq for step in task.steps):
            yield StepMoved(task=task.id, seq=seq, state=StepState.INTENT)
            yield StepMoved(task=task.id, seq=seq, state=StepState.DONE)
        yield TaskMoved(task=task.id, state=TaskState.RUNNING)
        yield TaskMoved(task=task.id, state=TaskState.DONE)


def begun(task: TaskRecord) -> TaskRecord:
    """The task of a VM whose wave begins with the operation."""
    steps = tuple(replace(step, state=StepState.DONE) for step in task.steps)
    return replace(task, steps=steps, state=TaskState.DONE)


def leave(tasks: Iterable[TaskRecord], why: str) -> Iterator[Transition]:
    """The VMs are left as they are."""
    for task in tasks:
        yield TaskMoved(task=task.id, state=TaskState.UNDOING, error=why)
        yield TaskMoved(task=task.id, state=TaskState.UNDONE, error=why)
