"""Operations whose worker died: resumed or undone, host by host; superseded ones are ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import (
    Close,
    ControllerState,
    HostCycle,
    OperationClaims,
)
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations import execution, operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import unfinished
from vgpumgr.engine.operations.operation_outcome import VmOutcome, operation_state
from vgpumgr.engine.operations.operation_status import NEEDS_OPERATOR, is_left, ways_on
from vgpumgr.engine.operations.refusals import current_tasks
from vgpumgr.engine.operations.task_run import CUT
from vgpumgr.engine.operations.waiting_waves import due, waits
from vgpumgr.model.errors import Interrupted, NotFound, OutcomeUnknown
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    FINAL_TASKS,
    OperationMoved,
    OperationRecord,
    OperationState,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.ports import Clock

_POWER = frozenset({"start", "stop", "reboot"})
_REASON = "superseded by a newer operation on this VM"


def end_superseded(
    ledger: Ledger, operation: OperationRecord, tasks: Sequence[TaskRecord]
) -> tuple[TaskRecord, ...]:
    """The operation's tasks; tasks that a newer operation has superseded are ended as failed."""
    power = {task.vm_id for task in unfinished(tasks) if task.verb in _POWER}
    newer = _asked_since(ledger, operation.id) if power else frozenset()
    old = {t.id for t in unfinished(tasks) if t.verb in _POWER and t.vm_id in newer}
    moved = [TaskMoved(task=each, state=TaskState.FAILED, error=_REASON) for each in sorted(old)]
    if moved:
        ledger.record(*moved)
    return tuple(
        replace(task, state=TaskState.FAILED, error=_REASON) if task.id in old else task
        for task in tasks
    )


def _asked_since(ledger: Ledger, operation: str) -> frozenset[str]:
    """VMs that newer operations are about. The order is the ledger's, not that of any clock."""
    found: set[str] = set()
    for newer in ledger.operations():
        if newer.id == operation:
            break
        found.update(task.vm_id for task in ledger.tasks(newer.id))
    return frozenset(found)


ENDED = "its process had died; serve closed the operation"


@dataclass(frozen=True, slots=True)
class OperationClosing:
    """Writes it down, and tells of it."""

    ledger: Ledger
    clock: Clock
    patience: RetryBackoff
    emit: Emit

    def __call__(self, operation: str, reasons: str) -> None:
        """``reasons``: why it can go neither forward nor back; empty where it may yet."""
        before = self.ledger.operation(operation)
        if before.ended_at is not None:
            return
        state = operation_state(
            [task.state for task in current_tasks(self.ledger.tasks(operation))]
        )
        open_ = state is OperationState.INTERRUPTED
        summary = (f"{NEEDS_OPERATOR}: {reasons}" if reasons else "") if open_ else ENDED
        ended_at = None if open_ else self.clock.now()
        self.ledger.record(
            OperationMoved(operation=operation, state=state, summary=summary, ended_at=ended_at)
        )
        if not open_:
            self.patience.done(operation)
            self.emit(_ended(before, state))
        elif summary and summary != before.summary:
            ways = ways_on(before, self.ledger.tasks(operation))
            self.emit(_needs_operator(before, summary, ways))


def _ended(before: OperationRecord, state: OperationState) -> ControllerEvent:
    return ControllerEvent(
        kind=EventKind.OPERATION_ENDED,
        operation=before.id,
        state=str(state),
        text=f"{before.kind} {before.id[:8]}, whose process had died, is {state}",
    )


def _needs_operator(before: OperationRecord, summary: str, ways: str) -> ControllerEvent:
    short = before.id[:8]
    return ControllerEvent(
        kind=EventKind.NEEDS_OPERATOR,
        operation=before.id,
        state=str(OperationState.INTERRUPTED),
        text=f"{before.kind} {short}: {summary}",
        next=f"vgpumgr operation show {short}, then {ways}",
    )


# Each verb's own policy says which: what was begun goes forward where the host lets it, a creation
# or a move that is refused is undone. Nothing is touched that a live process works on.


# How often a host may answer that it cannot tell before an operator has to look.
UNTOLD = 3


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """Was anything done on the host? ``left`` are operations that could not be ended."""

    worked: bool = False
    left: frozenset[str] = frozenset()


def recover(turn: HostCycle) -> RecoveryReport:
    """Resume every operation about this host that no process works on."""
    ledger, worked, left = turn.context.ledger, False, set()
    for operation in reversed(ledger.operations(open_only=True)):
        if turn.context.stop.is_set():
            break
        if not _is_ours_to_end(turn, operation):
            continue
        if turn.shared.patience.ready(operation.id, turn.host):
            did = _go_on(turn, operation)
            if did is None:
                continue
            worked = did or worked
        if ledger.operation(operation.id).ended_at is None:
            left.add(operation.id)
    return RecoveryReport(worked, frozenset(left))


def _is_ours_to_end(turn: HostCycle, operation: OperationRecord) -> bool:
    """Is something left to do on the host, or only the operation's own end to be written down?

    What a person interrupted is that person's for a while.
    """
    ledger = turn.context.ledger
    if operation.id not in turn.shared.claims and ledger.is_worked_on(operation.id):
        return False
    if is_left(operation, turn.context.clock.now()):
        return False
    tasks = ledger.tasks(operation.id)
    waiting = due(tasks)
    if not waiting and any(map(waits, tasks)):
        return not operation.summary.startswith(NEEDS_OPERATOR)
    return not waiting or any(task.host == turn.host for task in waiting)


def _go_on(turn: HostCycle, operation: OperationRecord) -> bool | None:
    """This host's part; was there any? None where another process was faster, and works on it."""
    context, shared = turn.context, turn.shared
    close = OperationClosing(context.ledger, context.clock, shared.patience, turn.emit)
    with shared.claims.hold(operation.id, close) as reasons:
        if reasons is None:
            return None
        outcomes = _run(turn, operation)
        if not due(context.ledger.tasks(operation.id)):
            context.reserve_alternates(operation.id)  # the turns of those hosts go on with it
        for each in outcomes:
            turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        reasons.extend(_reasons(turn, operation.id, outcomes))
        return bool(outcomes)


def _run(turn: HostCycle, operation: OperationRecord) -> Sequence[VmOutcome]:
    ledger = turn.context.ledger
    waiting = due(ledger.tasks(operation.id))
    mine = [task for task in waiting if task.host == turn.host]
    current = operation_lifecycle.close_superseded(ledger, mine, {})
    left = operation_lifecycle.unfinished(end_superseded(ledger, operation, current))
    return tuple(execution.run_tasks(turn.context, _records(ledger, left), left).values())


def _records(ledger: Ledger, tasks: Iterable[TaskRecord]) -> Mapping[str, HostRecord]:
    found: dict[str, HostRecord] = {}
    for name in {name for task in tasks for name in task.hosts}:
        try:
            found[name] = ledger.host(name)
        except NotFound:
            continue  # the task will say that its host is no longer enrolled
    return found


# Who began it looked at users, and at the VMs that had changed; the controller cannot.
_NEXT_WAVE = "its next wave stops VMs, which a person begins"


def _reasons(turn: HostCycle, operation: str, outcomes: Iterable[VmOutcome]) -> Iterable[str]:
    """Reasons why only an operator can end an operation: the host answers, and neither resuming nor
    undoing works there.
    """
    tasks = turn.context.ledger.tasks(operation)
    if not due(tasks) and any(map(waits, tasks)):
        yield _NEXT_WAVE
    waiting = [each for each in outcomes if each.state not in FINAL_TASKS and each.error]
    tries = turn.shared.patience.failed(operation, turn.host) if waiting else 0
    for each in waiting:
        unknown = isinstance(each.error, OutcomeUnknown)
        cut = isinstance(each.error, (*CUT, Interrupted))
        if tries >= UNTOLD if unknown else not cut:
            yield f"{each.verb} of {each.vm} on {each.host}: {each.error}"


def close_orphans(
    ledger: Ledger,
    claims: OperationClaims,
    tasks: Sequence[TaskRecord],
    enrolled: Collection[str],
    close: Close,
) -> None:
    """End an operation's tasks whose host is no longer enrolled: nothing of the fleet is left
    there.

    A host is removed only when nothing is allocated on it.
    """
    gone = [task for task in unfinished(tasks) if task.host not in enrolled]
    if not gone:
        return
    with claims.hold(gone[0].operation, close) as reasons:
        if reasons is None:
            return
        why = {task.id: f"host {task.host} is no longer enrolled" for task in gone}
        ledger.record(
            *(
                TaskMoved(task=each, state=TaskState.FAILED, error=text)
                for each, text in why.items()
            )
        )


class OrphanedOperations:
    """Looks for them once a round; a host is hurried once per interval."""

    def __init__(
        self, context: EngineContext, shared: ControllerState, interval_s: float, close: Close
    ) -> None:
        self._context = context
        self._shared = shared
        self._interval_s = interval_s
        self._close = close
        self._hurried: dict[str, float] = {}

    def begun(self, host: str) -> None:
        """A host's cycle began: the host may be made due again."""
        self._hurried.pop(host, None)

    def make_due(self, open_: Sequence[OperationRecord], can_begin: Callable[[str], bool]) -> None:
        """Make the hosts of operations due now that no process works on, where ``can_begin`` says
        so.
        """
        ledger, now = self._context.ledger, self._context.clock.monotonic()
        for operation in open_:
            if operation.id in self._shared.claims or ledger.is_worked_on(operation.id):
                continue
            if is_left(operation, self._context.clock.now()):
                continue
            for host in {task.host for task in due(ledger.tasks(operation.id))}:
                ready = self._shared.patience.ready(operation.id, host)
                if ready and can_begin(host) and self._not_lately(host, now):
                    self._hurried[host] = now
                    self._due_now(host, operation)

    def close_orphans(self, open_: Sequence[OperationRecord], enrolled: Sequence[str]) -> None:
        """End what is about hosts that are not among the enrolled ones."""
        ledger = self._context.ledger
        for operation in open_:
            tasks = ledger.tasks(operation.id)
            close_orphans(ledger, self._shared.claims, tasks, enrolled, self._close)

    def _not_lately(self, host: str, now: float) -> bool:
        return self._hurried.get(host, float("-inf")) + self._interval_s <= now

    def _due_now(self, host: str, operation: OperationRecord) -> None:
        ledger = self._context.ledger
        try:
            ledger.host_due(host, self._context.clock.now())
        except NotFound:
            self.close_orphans([operation], [each.name for each in ledger.hosts()])
