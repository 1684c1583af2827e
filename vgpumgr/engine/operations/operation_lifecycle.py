"""Operations from reservation to outcome: begun, resumed, undone; planned again after a lost
race.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from vgpumgr.engine.operations import execution, operation_status, unfinished
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_verbs import VERBS, OnRefusal
from vgpumgr.engine.operations.refusals import BY_REQUEST, to_try_elsewhere
from vgpumgr.model.errors import Conflict, Interrupted, StaleGeneration
from vgpumgr.model.operation import (
    FINAL_TASKS,
    REIMAGE,
    UNSHELVE,
    OperationMoved,
    OperationRecord,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmSpec

T = TypeVar("T")

PLAN_ATTEMPTS = 5


def until_current(attempt: Callable[[], T]) -> T:
    """The result of an attempt that plans and reserves; the last StaleGeneration is raised."""
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return attempt()
        except StaleGeneration:
            continue
    return attempt()


# Whoever runs an operation has claimed it before.


def begin(context: EngineContext, start: Reservation) -> Outcome:
    """Reserve and run; StaleGeneration changes nothing."""
    if not (start.tasks or start.layouts):
        return Outcome()
    if context.stop.is_set():
        raise Interrupted("interrupted", why="nothing was changed yet")
    context.ledger.reserve(start)
    _claim(context, start.operation.id)
    return execution.run(context, start.operation.id, start.tasks, elsewhere=True)


def resume(context: EngineContext, prefix: str) -> Outcome:
    """Finish an interrupted one: look first, then go on. One that is done already stays so;
    Conflict for one that ended otherwise.
    """
    record = context.ledger.operation(prefix)
    operation_status.refuse_resume_of_ended(record, context.ledger.tasks(record.id))
    operation = record.id
    tasks = _claimed(context, operation)
    refused = to_try_elsewhere(tasks, context.ledger.refusals(operation))
    waiting = (*unfinished.unfinished(tasks), *(each.task for each in refused))
    tasks = unfinished.close_overtaken(context.ledger, tasks, {})
    return execution.run(context, operation, tasks, elsewhere=True).of(waiting)


def undo(context: EngineContext, prefix: str) -> Outcome:
    """Take back its unfinished creations and moves; what is done stays. Conflict for one that has
    ended, that a live process works on, or that only goes forward.
    """
    record = context.ledger.operation(prefix)
    operation_status.refuse_undo_of_ended(record, context.ledger.tasks(record.id))
    tasks = _claimed(context, record.id)
    # It may have ended while its worker held it.
    operation_status.refuse_undo_of_ended(context.ledger.operation(record.id), tasks)
    back = _to_undo(tasks)
    _decide(context, record, back)
    return execution.run(context, record.id, back)


def _decide(
    context: EngineContext, operation: OperationRecord, tasks: Iterable[TaskRecord]
) -> None:
    """Write down that they are undone before the first one is: if this process is interrupted,
    nobody finishes the rest. One that may have settled is asked first.
    """
    context.ledger.record(
        *(
            TaskMoved(task=task.id, state=TaskState.UNDOING, error=task.error)
            for task in tasks
            if task.state is TaskState.UNDOING and not operation_status.may_have_settled(task)
        ),
        OperationMoved(operation=operation.id, state=OperationState.RUNNING),
    )


def finish_leftovers(
    context: EngineContext, desired: Mapping[str, VmSpec], verbs: Collection[str]
) -> Outcome:
    """Go on with what a crash or an interruption left behind on these VMs."""
    ledger, ended = context.ledger, Outcome()
    for operation, waits in unfinished.left_behind(ledger, desired, verbs):
        if context.unasked and operation_status.is_left(operation, context.clock.now()):
            continue
        if waits:
            ended = ended.then(_go_on(context, operation.id, desired))
        elif ledger.claim_operation(operation.id):
            execution.run(context, operation.id, ledger.tasks(operation.id))
    return ended


def take_back(context: EngineContext, names: Collection[str]) -> None:
    """Undo what was to bring these VMs up, made, shelved or with another disk, and of no other."""
    for operation, waits in unfinished.left_behind(
        context.ledger, names, {"create", UNSHELVE, REIMAGE}
    ):
        if waits:
            tasks = _to_undo(_claimed(context, operation.id), names)
            outcome = execution.run(context, operation.id, tasks, only=names)
            unfinished.require_taken_back(outcome, names)


def _go_on(context: EngineContext, operation: str, desired: Mapping[str, VmSpec]) -> Outcome:
    """Resume what was not overtaken by what is desired now."""
    claimed = _claimed(context, operation)
    tasks = unfinished.close_overtaken(context.ledger, claimed, desired)
    outcome = execution.run(context, operation, tasks, elsewhere=True)
    if outcome.interrupted:
        outcome.raise_for_failure()
    return outcome.of(unfinished.unfinished(tasks))


def _to_undo(
    tasks: Iterable[TaskRecord], names: Collection[str] | None = None
) -> tuple[TaskRecord, ...]:
    """Unfinished creations and moves (of these VMs) marked to be undone; the rest only goes
    forward.
    """

    def chosen(task: TaskRecord) -> bool:
        return task.state not in FINAL_TASKS and (names is None or task.vm in names)

    return tuple(_marked_undoing(task) if chosen(task) else task for task in tasks)


def _marked_undoing(task: TaskRecord) -> TaskRecord:
    if VERBS[task.verb].on_refusal is not OnRefusal.UNDO:
        raise Conflict(
            f"{task.verb} {task.vm} cannot be undone",
            why="it only goes forward",
            next=f"vgpumgr operation resume {task.operation[:8]}",
        )
    why = f"{BY_REQUEST}: {task.error}" if task.error else BY_REQUEST
    return replace(task, state=TaskState.UNDOING, error=why)


def _claimed(context: EngineContext, operation: str) -> tuple[TaskRecord, ...]:
    _claim(context, operation)
    return context.ledger.tasks(operation)


def _claim(context: EngineContext, operation: str) -> None:
    if not context.ledger.claim_operation(operation):
        raise unfinished.running(context.ledger, operation)
