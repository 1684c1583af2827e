"""Status of an operation, by its journal and by whether a live process works on it.

Undo, resume, lists and `serve` share these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.engine.operations.operation_records import VERBS, OnRefusal
from vgpumgr.engine.steps.step import settles
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import clock, counted, spanned
from vgpumgr.model.operation import (
    FINAL_TASKS,
    LAYOUT,
    MIGRATE,
    OperationRecord,
    OperationState,
    StepState,
    TaskRecord,
    TaskState,
)

# How the note of an operation begins that can go neither forward nor back.
NEEDS_OPERATOR = "needs-operator"


class OperationWord(StrEnum):
    """The word for an operation's status; the words after ``abandoned`` are ends.

    ``interrupted``: its worker left it in good order, by Ctrl-C or because a host did not let it go
    on. ``abandoned``: its worker died.
    """

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    ABANDONED = "abandoned"
    DONE = "done"
    UNDONE = "undone"
    PARTLY = "partly"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatus:
    """An operation's status: ``note`` says more, ``next`` is the command to use; both may be empty.

    ``left_until`` is set while it is left to the person that interrupted it (Unix seconds).
    """

    word: OperationWord
    note: str = ""
    next: str = ""
    left_until: float | None = None


def is_left(operation: OperationRecord, now: float) -> bool:
    """Whether it is left to the person that interrupted it."""
    return operation.left_until is not None and now < operation.left_until


def can_be_undone(tasks: Sequence[TaskRecord]) -> bool:
    """Is something open, and all of it such that its way back is not known to be closed?

    A step that settles its task and was begun may have happened: the host says so at the undo.
    """
    open_ = [task for task in tasks if task.state not in FINAL_TASKS]
    return bool(open_) and not any(_only_forward(task) for task in open_)


def may_have_settled(task: TaskRecord) -> bool:
    """Was a step begun after which there is no way back?"""
    return any(
        step.state in {StepState.INTENT, StepState.DONE} and settles(step) for step in task.steps
    )


def _only_forward(task: TaskRecord) -> bool:
    return VERBS[task.verb].on_refusal is not OnRefusal.UNDO or any(
        step.state is StepState.DONE and settles(step) for step in task.steps
    )


def status(
    operation: OperationRecord, tasks: Sequence[TaskRecord], *, worked_on: bool, now: float
) -> OperationStatus:
    """The status of an operation. ``worked_on``: a live process has it; ``tasks`` matter while it
    is open.
    """
    if operation.ended_at is not None:
        stale = operation.summary.startswith(NEEDS_OPERATOR)
        note = "" if stale else operation.summary
        return OperationStatus(word=OperationWord(operation.state), note=note)
    if worked_on:
        note = f"{process(operation)} works on it" if operation.worker else ""
        return OperationStatus(word=OperationWord.RUNNING, note=note)
    left = is_left(operation, now)
    died = operation.state is OperationState.RUNNING or bool(operation.worker)
    word = OperationWord.ABANDONED if died and not left else OperationWord.INTERRUPTED
    return OperationStatus(
        word=word,
        note=_open_note(operation, word, left=left),
        next=ways_on(operation, tasks),
        left_until=operation.left_until if left else None,
    )


def _open_note(operation: OperationRecord, word: OperationWord, *, left: bool) -> str:
    if left and operation.left_until is not None:
        whom = operation.by or "the person who interrupted it"
        return f"left to {whom} until {clock(operation.left_until)}, then serve finishes it"
    if operation.summary:
        return operation.summary
    return "its process died; serve resumes it" if word is OperationWord.ABANDONED else ""


def ways_on(operation: OperationRecord, tasks: Sequence[TaskRecord]) -> str:
    """The commands for an open operation: resume, and undo where there is a way back."""
    resume = f"vgpumgr operation resume {operation.id}"
    if can_be_undone(tasks):
        return f"{resume}   (or: vgpumgr operation undo {operation.id})"
    if tasks and all(task.verb == LAYOUT for task in tasks):
        return f"{resume}   (or: the same command again)"
    return f"{resume}   (it only goes forward)"


def process(operation: OperationRecord) -> str:
    """The worker of an operation, as ``process 4711 on ctl``, or an unnamed process."""
    machine, _, rest = operation.worker.partition(":")
    return f"process {rest.partition(':')[0]} on {machine}" if rest else "another process"


def refuse_undo_of_ended(operation: OperationRecord, tasks: Sequence[TaskRecord]) -> None:
    """Conflict for an operation that has ended: what it is, and what to type instead."""
    if operation.ended_at is None:
        return
    short = operation.id[:8]
    done = [task for task in tasks if task.state is TaskState.DONE]
    raise Conflict(
        f"{operation.kind} {short} is {operation.state}: there is nothing left to undo",
        why=f"it ended with {_counts(tasks)}; only what is unfinished can be undone",
        next=_instead(done) if done else f"vgpumgr operation show {short}",
    )


def refuse_resume_of_ended(operation: OperationRecord, tasks: Sequence[TaskRecord]) -> None:
    """Conflict for an operation that ended otherwise than done: nothing of it goes on."""
    if operation.ended_at is None or operation.state is OperationState.DONE:
        return
    short = operation.id[:8]
    raise Conflict(
        f"{operation.kind} {short} is {operation.state}: there is nothing left to finish",
        why=f"it ended with {_counts(tasks)}",
        next=f"vgpumgr operation show {short}, then the command that began it once more",
    )


def _counts(tasks: Sequence[TaskRecord]) -> str:
    """``3 done, 1 undone``."""
    states = [str(task.state) for task in tasks]
    said = [f"{states.count(state)} {state}" for state in TaskState if state in states]
    return ", ".join(said) or "nothing to do"


def _instead(done: Sequence[TaskRecord]) -> str:
    """The command that reverses a finished operation, where there is one."""
    verbs = {task.verb for task in done}
    names = [task.vm for task in done]
    if verbs == {"create"}:
        return f"vgpumgr vm delete --force {_some(names)}   (--keep-disks keeps the disks)"
    if verbs == {"start"}:
        return f"vgpumgr vm stop {_some(names)}"
    if verbs == {"stop"}:
        return f"vgpumgr vm start {_some(names)}"
    if verbs == {LAYOUT}:
        return "vgpumgr layout apply -f FILE with the layout from before"
    if verbs == {MIGRATE} and len(done) == 1:
        return f"vgpumgr vm migrate {done[0].vm} --to {done[0].host}"
    return f"vgpumgr operation show {done[0].operation[:8]}"


def _some(names: Sequence[str], most: int = 5) -> str:
    """The VMs' names; of many the first few, and the number of the rest."""
    if len(names) <= most:
        return " ".join(names)
    return f"NAME …   ({counted(len(names), 'VM')}: {spanned(names)})"
