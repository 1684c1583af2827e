"""Run journalled tasks: intent, effect, confirm; on refusal, undo in reverse.

An effect never starts before its intent is on disk. The confirm of one step and the intent of
the next are one commit. After a crash, or a call that was cut, the host is looked at first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from vgpumgr.engine import steps
from vgpumgr.engine.outcome import Outcome, VmOutcome, operation_state
from vgpumgr.engine.verbs import VERBS, OnRefusal, finished, taken_back
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostUnreachable,
    InUse,
    LedgerError,
    OutcomeUnknown,
    VgpumgrError,
)
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import (
    FINAL_TASKS,
    OperationMoved,
    OperationState,
    StepMoved,
    StepRecord,
    StepState,
    TaskMoved,
    TaskRecord,
    TaskState,
    Transition,
)
from vgpumgr.model.observed import Differs, InState, Unknown
from vgpumgr.model.ports import Clock, Host, Hosts, Lanes, Ledger

CUT = (HostUnreachable, DeadlineExceeded, OutcomeUnknown)

Progress = Callable[[VmOutcome], None]


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs the tasks of one operation, one lane per host.

    ``stop`` is set by the first Ctrl-C: the running host call ends, nothing new begins.
    """

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    stop: threading.Event
    progress: Progress

    def run(
        self,
        operation: str,
        tasks: Sequence[TaskRecord],
        hosts: Iterable[HostRecord],
        only: Collection[str] | None = None,
    ) -> Outcome:
        """Run every unfinished task, or ``only`` those of these VMs, and close the operation."""
        records = {host.name: host for host in hosts}
        lanes: dict[str, list[TaskRecord]] = {}
        for task in tasks:
            if task.state not in FINAL_TASKS and (only is None or task.vm in only):
                lanes.setdefault(task.host, []).append(task)
        results = self.lanes.run(
            {name: partial(self._lane, records.get(name), work) for name, work in lanes.items()}
        )
        ended: dict[str, VmOutcome] = {}
        for result in results.values():
            if isinstance(result, Exception):
                raise result
            ended.update(result)
        outcomes = tuple(ended.get(task.id) or _already(task) for task in tasks)
        return self._close(operation, outcomes)

    def _close(self, operation: str, outcomes: tuple[VmOutcome, ...]) -> Outcome:
        state = operation_state([outcome.state for outcome in outcomes])
        open_ = state is OperationState.INTERRUPTED
        self.ledger.record(
            OperationMoved(
                operation=operation,
                state=state,
                ended_at=None if open_ else self.clock.now(),
            )
        )
        stopped = open_ and self.stop.is_set()
        return Outcome(operation=operation, vms=outcomes, interrupted=stopped)

    def _lane(self, record: HostRecord | None, tasks: list[TaskRecord]) -> dict[str, VmOutcome]:
        """One host's tasks in order; a host that cannot be reached ends its lane."""
        ended: dict[str, VmOutcome] = {}
        for task in tasks:
            if self.stop.is_set():
                break
            outcome = self._task(record, task)
            ended[task.id] = outcome
            self.progress(outcome)
            if isinstance(outcome.error, HostUnreachable):
                break
        return ended

    def _task(self, record: HostRecord | None, task: TaskRecord) -> VmOutcome:
        if record is None:
            error = HostUnreachable(f"host {task.host} is no longer enrolled")
            return _outcome(task, task.state, error)
        run = TaskRun(self.ledger, self.hosts.open(record), self.clock, self.stop, task)
        return run.undo(task.error) if task.state is TaskState.UNDOING else run.forward()


class TaskRun:
    """One task on its host."""

    def __init__(
        self, ledger: Ledger, host: Host, clock: Clock, stop: threading.Event, task: TaskRecord
    ) -> None:
        self._ledger = ledger
        self._host = host
        self._clock = clock
        self._stop = stop
        self._task = task
        self._states = {step.seq: step.state for step in task.steps}
        self._waiting: list[Transition] = []

    def forward(self) -> VmOutcome:
        """Every step that is not done yet, then the task's end in the same commit."""
        task = self._task
        self._waiting.append(TaskMoved(task=task.id, state=TaskState.RUNNING))
        for record in task.steps:
            if self._stop.is_set():
                self._flush()
                return _outcome(task, TaskState.RUNNING)
            try:
                self._step(record)
            except LedgerError:
                raise  # what cannot be written down must not go on
            except VgpumgrError as error:
                return self._refused(record, error)
        self._flush(finished(task))
        return _outcome(task, TaskState.DONE)

    def undo(self, why: str) -> VmOutcome:
        """Take back, in reverse, whatever may have happened."""
        task = self._task
        self._waiting.append(TaskMoved(task=task.id, state=TaskState.UNDOING, error=why))
        for record in reversed(task.steps):
            if self._states[record.seq] in {StepState.PLANNED, StepState.UNDONE}:
                continue
            try:
                self._flush(self._moved(record, StepState.UNDO_INTENT))
                steps.from_record(record).undo(self._host)
            except LedgerError:
                raise
            except VgpumgrError as error:
                self._flush(TaskMoved(task=task.id, state=TaskState.UNDOING, error=str(error)))
                return _outcome(task, TaskState.UNDOING, error)
            self._waiting.append(self._moved(record, StepState.UNDONE))
        self._flush(taken_back(task, why))
        return _outcome(task, TaskState.UNDONE)

    def _step(self, record: StepRecord) -> None:
        step = steps.from_record(record)
        if record.state is StepState.PLANNED:
            self._flush(self._moved(record, StepState.INTENT))
        elif record.state is StepState.INTENT and not step.atomic:
            step.undo(self._host)
        elif self._happened(step):
            if record.state is StepState.INTENT:
                self._waiting.append(self._moved(record, StepState.DONE))
            return
        step.act(self._host, self._clock)
        if record.state is not StepState.DONE:
            self._waiting.append(self._moved(record, StepState.DONE))

    def _happened(self, step: steps.Step) -> bool:
        """After a crash or a cut call the host is asked; what it cannot tell stops the task."""
        match step.look(self._host):
            case InState():
                return True
            case Differs():
                return False
            case Unknown(why):
                raise OutcomeUnknown(f"{step.summary}: cannot tell whether it happened", why=why)

    def _refused(self, record: StepRecord, error: VgpumgrError) -> VmOutcome:
        """The host said no, or did not answer: undo, wait to be resumed, or fail."""
        task = self._task
        policy = VERBS[task.verb].on_refusal
        if policy is OnRefusal.FAIL:
            self._flush(TaskMoved(task=task.id, state=TaskState.FAILED, error=str(error)))
            return _outcome(task, TaskState.FAILED, error)
        if policy is OnRefusal.WAIT or isinstance(error, CUT):
            self._flush(TaskMoved(task=task.id, state=TaskState.RUNNING, error=str(error)))
            return _outcome(task, TaskState.RUNNING, error)
        if isinstance(error, Conflict) and not isinstance(error, InUse):
            self._leave(record)
        undone = self.undo(str(error))
        return _outcome(task, undone.state, error)

    def _leave(self, record: StepRecord) -> None:
        """The thing is somebody else's: no undo, now or later, may touch it."""
        self._waiting.append(self._moved(record, StepState.UNDO_INTENT))
        self._waiting.append(self._moved(record, StepState.UNDONE))

    def _moved(self, record: StepRecord, state: StepState) -> StepMoved:
        self._states[record.seq] = state
        return StepMoved(task=self._task.id, seq=record.seq, state=state)

    def _flush(self, *more: Transition) -> None:
        waiting, self._waiting = [*self._waiting, *more], []
        if waiting:
            self._ledger.record(*waiting)


def _outcome(task: TaskRecord, state: TaskState, error: VgpumgrError | None = None) -> VmOutcome:
    return VmOutcome(vm=task.vm, host=task.host, verb=task.verb, state=state, error=error)


def _already(task: TaskRecord) -> VmOutcome:
    """A task that did not run this time: done before, or never begun."""
    return _outcome(task, task.state)
