"""One task on its hosts: its steps bound to them and run forward, or undone in reverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.operations.operation_records import (
    VERBS,
    OnRefusal,
    finished,
    no_way_back,
    undone,
)
from vgpumgr.engine.operations.refusals import (
    TRIED_ELSEWHERE,
    confirmed_refusals,
    proven_places,
    refusal_of,
)
from vgpumgr.engine.steps.step import Step, StepSurroundings, TwoHostStep, from_record, settles
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostUnreachable,
    Interrupted,
    InUse,
    LedgerError,
    OutcomeUnknown,
    VgpumgrError,
)
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    Differs,
    InState,
    Observed,
    PlaceRefused,
    PlaceServed,
    StepMoved,
    StepRecord,
    StepState,
    TaskMoved,
    TaskRecord,
    TaskState,
    Transition,
    Unknown,
)
from vgpumgr.model.ports import Host
from vgpumgr.model.refusal import TOLERANCE, Refusal, Tolerance, of_place


@dataclass(frozen=True, slots=True)
class BoundStep:
    """A step on one host."""

    step: Step
    host: Host
    around: StepSurroundings

    @property
    def line(self) -> str:
        """The step's effect, with its host."""
        return f"{self.step.summary} on {self.host.name}"

    def look(self) -> Observed:
        """Is the host as the step leaves it?"""
        return self.step.look(self.host)

    def renew(self) -> None:
        """Half of it is taken away by a step that is not atomic."""
        if not self.step.atomic:
            self.step.undo(self.host)

    def act(self) -> None:
        """Act on the host."""
        self.step.within(self.host, self.around)

    def undo(self) -> None:
        """Undo the step."""
        self.step.undo(self.host)


@dataclass(frozen=True, slots=True)
class BoundTwoHostStep:
    """A step between the host that a VM leaves and its target."""

    step: TwoHostStep
    source: Host
    target: Host
    around: StepSurroundings

    @property
    def line(self) -> str:
        """The step's effect, with its two hosts."""
        return f"{self.step.summary}, {self.source.name} → {self.target.name}"

    def look(self) -> Observed:
        """Are both as the step leaves them?"""
        return self.step.look(self.source, self.target)

    def renew(self) -> None:
        """Take away what a cut attempt left."""
        self.step.renew(self.source, self.target)

    def act(self) -> None:
        """Act on both hosts."""
        self.step.act(self.source, self.target, self.around)

    def undo(self) -> None:
        """Undo the step."""
        self.step.undo(self.source, self.target)


def bind(
    record: StepRecord, task: TaskRecord, hosts: Mapping[str, Host], around: StepSurroundings
) -> BoundStep | BoundTwoHostStep:
    """The step that a record describes, with its hosts."""
    step = from_record(record)
    if isinstance(step, TwoHostStep):
        return BoundTwoHostStep(step, hosts[task.host], hosts[task.peer], around)
    return BoundStep(step, hosts[record.host or task.host], around)


# The call was cut, or the host did not answer: what happened there is not known.
CUT = (HostUnreachable, DeadlineExceeded, OutcomeUnknown)


class TaskRun:
    """One task on its hosts."""

    def __init__(
        self,
        ledger: Ledger,
        hosts: Mapping[str, Host],
        around: StepSurroundings,
        task: TaskRecord,
        tolerance: Tolerance = TOLERANCE,
    ) -> None:
        self._ledger = ledger
        self._hosts = hosts
        self._around = around
        self._task = task
        self._tolerance = tolerance
        self._states = {step.seq: step.state for step in task.steps}
        self._waiting: list[Transition] = []

    def forward(self) -> VmOutcome:
        """Every step that is not done yet, then the task's end in the same commit."""
        task = self._task
        try:
            left = self._after_settled()
        except VgpumgrError as error:
            return self._wait(error)
        self._waiting.append(TaskMoved(task=task.id, state=TaskState.RUNNING))
        for record in left:
            if self._around.stop.is_set():
                self._flush()
                return outcome_of(task, TaskState.RUNNING)
            try:
                self._step(record)
            except LedgerError:
                raise  # what cannot be written down must not go on
            except VgpumgrError as error:
                return self._refused(record, error)
        host, gpus = proven_places(task)
        if host or gpus:
            self._waiting.append(PlaceServed(task=task.id, host=host, gpus=gpus))
        if task.verb in TRIED_ELSEWHERE:
            for each in confirmed_refusals(task, self._ledger.refusals(task.operation)):
                self._note(each)
        self._flush(finished(task))
        return outcome_of(task, TaskState.DONE)

    def undo(self, why: str) -> VmOutcome:
        """Take back, in reverse, whatever may have happened; not what is settled."""
        task = self._task
        try:
            if self._is_settled():
                return outcome_of(task, TaskState.RUNNING, _settled(task))
        except VgpumgrError as error:
            return outcome_of(task, task.state, error)
        self._waiting.append(TaskMoved(task=task.id, state=TaskState.UNDOING, error=why))
        for record in reversed(task.steps):
            if self._states[record.seq] in {StepState.PLANNED, StepState.UNDONE}:
                continue
            try:
                self._flush(self._moved(record, StepState.UNDO_INTENT))
                self._bound(record).undo()
            except LedgerError:
                raise
            except VgpumgrError as error:
                self._flush(TaskMoved(task=task.id, state=TaskState.UNDOING, error=str(error)))
                return outcome_of(task, TaskState.UNDOING, error)
            self._waiting.append(self._moved(record, StepState.UNDONE))
        self._flush(undone(task, why))
        return outcome_of(task, TaskState.UNDONE)

    def _step(self, record: StepRecord) -> None:
        step = self._bound(record)
        if record.state is StepState.PLANNED:
            self._flush(self._moved(record, StepState.INTENT))
        elif (record.state is StepState.DONE or step.step.atomic) and self._happened(step):
            if record.state is StepState.INTENT:
                self._waiting.append(self._moved(record, StepState.DONE))
            return
        elif record.state is StepState.INTENT or isinstance(step, BoundTwoHostStep):
            step.renew()
        if self._task.peer:
            self._around.tell(step.line)
        step.act()
        if record.state is not StepState.DONE:
            self._waiting.append(self._moved(record, StepState.DONE))

    def _happened(self, step: BoundStep | BoundTwoHostStep) -> bool:
        """After a crash or a cut call the host is asked; what it cannot tell stops the task."""
        match step.look():
            case InState():
                return True
            case Differs():
                return False
            case Unknown(why):
                summary = step.step.summary
                raise OutcomeUnknown(f"{summary}: cannot tell whether it happened", why=why)

    def _after_settled(self) -> Sequence[StepRecord]:
        """The steps to go through: what came before a step that settles is history."""
        records = self._task.steps
        for number, record in enumerate(records):
            if settles(record) and self._has_settled(record):
                if record.state is StepState.INTENT:
                    self._waiting.append(self._moved(record, StepState.DONE))
                return records[number + 1 :]
        return records

    def _is_settled(self) -> bool:
        """Did a step happen after which there is no way back?"""
        return any(settles(each) and self._has_settled(each) for each in self._task.steps)

    def _has_settled(self, record: StepRecord) -> bool:
        """A step that settles and was begun: the hosts say whether it has happened."""
        state = self._states[record.seq]
        return state is StepState.DONE or (
            state is StepState.INTENT and self._happened(self._bound(record))
        )

    def _refused(self, record: StepRecord, error: VgpumgrError) -> VmOutcome:
        """The host said no, or did not answer: undo, wait to be resumed, or fail."""
        task = self._task
        policy = VERBS[task.verb].on_refusal
        refusal = refusal_of(task, record, error, self._around.clock.now())
        if refusal is not None:
            self._note(refusal)
        if policy is OnRefusal.FAIL:
            self._flush(TaskMoved(task=task.id, state=TaskState.FAILED, error=str(error)))
            return outcome_of(task, TaskState.FAILED, error)
        if policy is OnRefusal.WAIT or isinstance(error, (*CUT, Interrupted)):
            return self._wait(error)
        try:
            if self._is_settled():
                return self._wait(error)
        except VgpumgrError as unknown:
            return self._wait(unknown)
        if isinstance(error, Conflict) and not isinstance(error, InUse):
            self._leave(record)
        undone = self.undo(str(error))
        return outcome_of(task, undone.state, error)

    def _note(self, refusal: Refusal) -> None:
        """Add a refusal, with its back-off and quarantine, to the task's next transition."""
        before = of_place(self._ledger.refusals(), *refusal.place)
        rest = self._tolerance.back_off(before, refusal)
        self._waiting.append(
            PlaceRefused(
                task=self._task.id,
                refusal=replace(refusal, until=self._around.clock.now() + rest if rest else 0.0),
                sets_aside=self._tolerance.sets_aside(before, refusal),
            )
        )

    def _wait(self, error: VgpumgrError) -> VmOutcome:
        """Keep finished steps, for the task to be resumed."""
        task = self._task
        self._flush(TaskMoved(task=task.id, state=TaskState.RUNNING, error=str(error)))
        return outcome_of(task, TaskState.RUNNING, error)

    def _leave(self, record: StepRecord) -> None:
        """Mark a step as undone without touching its object, which belongs to another owner."""
        self._waiting.append(self._moved(record, StepState.UNDO_INTENT))
        self._waiting.append(self._moved(record, StepState.UNDONE))

    def _bound(self, record: StepRecord) -> BoundStep | BoundTwoHostStep:
        return bind(record, self._task, self._hosts, self._around)

    def _moved(self, record: StepRecord, state: StepState) -> StepMoved:
        self._states[record.seq] = state
        return StepMoved(task=self._task.id, seq=record.seq, state=state)

    def _flush(self, *more: Transition) -> None:
        waiting, self._waiting = [*self._waiting, *more], []
        if waiting:
            self._ledger.record(*waiting)


def outcome_of(task: TaskRecord, state: TaskState, error: VgpumgrError | None = None) -> VmOutcome:
    """The outcome of a task; a task that did not run this time has ended before, or never begun."""
    return VmOutcome(
        vm=task.vm, host=task.host, verb=task.verb, state=state, error=error, peer=task.peer
    )


def _settled(task: TaskRecord) -> Conflict:
    return Conflict(
        f"{task.verb} {task.vm} can no longer be undone",
        why=no_way_back(task),
        next=f"vgpumgr operation resume {task.operation[:8]}",
    )
