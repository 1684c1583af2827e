"""Operations whose worker died: resumed, or undone, host by host.

Each verb's own policy says which: what was begun goes forward where the host lets it, a creation or
a move that is refused is undone. Nothing is touched that a live process works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine.reconcile.closing import Closing
from vgpumgr.engine.reconcile.context import Turn
from vgpumgr.engine.reconcile.events import task_event
from vgpumgr.engine.reconcile.overtaken import give_way
from vgpumgr.engine.running import execute, leftovers
from vgpumgr.engine.running.outcome import VmOutcome
from vgpumgr.engine.running.run import CUT
from vgpumgr.engine.running.status import is_left
from vgpumgr.model.errors import Interrupted, NotFound, OutcomeUnknown
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import FINAL_TASKS, OperationRecord, TaskRecord
from vgpumgr.model.ports import Ledger

# How often a host may answer that it cannot tell before somebody has to look.
UNTOLD = 3


@dataclass(frozen=True, slots=True)
class Recovered:
    """Was anything done on the host? ``left`` are operations that could not be ended."""

    worked: bool = False
    left: frozenset[str] = frozenset()


def recover(turn: Turn) -> Recovered:
    """Go on with every operation that nobody works on, as far as it is about this host."""
    ledger, worked, left = turn.session.ledger, False, set()
    for operation in reversed(ledger.operations(open_only=True)):
        if turn.session.stop.is_set():
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
    return Recovered(worked, frozenset(left))


def _is_ours_to_end(turn: Turn, operation: OperationRecord) -> bool:
    """Is something left to do on the host, or only the operation's own end to be written down?

    What a person interrupted is that person's for a while.
    """
    ledger = turn.session.ledger
    if operation.id not in turn.shared.claims and ledger.is_worked_on(operation.id):
        return False
    if is_left(operation, turn.session.clock.now()):
        return False
    waiting = leftovers.unfinished(ledger.tasks(operation.id))
    return not waiting or any(task.host == turn.host for task in waiting)


def _go_on(turn: Turn, operation: OperationRecord) -> bool | None:
    """This host's part; was there any? None where another process was faster, and works on it."""
    session, shared = turn.session, turn.shared
    close = Closing(session.ledger, session.clock, shared.patience, turn.emit)
    with shared.claims.hold(operation.id, close) as reasons:
        if reasons is None:
            return None
        outcomes = _run(turn, operation)
        if not leftovers.unfinished(session.ledger.tasks(operation.id)):
            session.reserve_alternates(operation.id)  # the turns of those hosts go on with it
        for each in outcomes:
            turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        reasons.extend(_reasons(turn, operation.id, outcomes))
        return bool(outcomes)


def _run(turn: Turn, operation: OperationRecord) -> Sequence[VmOutcome]:
    ledger = turn.session.ledger
    waiting = leftovers.unfinished(ledger.tasks(operation.id))
    mine = [task for task in waiting if task.host == turn.host]
    current = leftovers.close_overtaken(ledger, mine, {})
    left = leftovers.unfinished(give_way(ledger, operation, current))
    return tuple(execute.lane(turn.session, _records(ledger, left), left).values())


def _records(ledger: Ledger, tasks: Iterable[TaskRecord]) -> Mapping[str, HostRecord]:
    found: dict[str, HostRecord] = {}
    for name in {name for task in tasks for name in task.hosts}:
        try:
            found[name] = ledger.host(name)
        except NotFound:
            continue  # the task will say that its host is no longer enrolled
    return found


def _reasons(turn: Turn, operation: str, outcomes: Iterable[VmOutcome]) -> Iterable[str]:
    """What only an operator can end: the host answers, and lets it go neither forward nor back."""
    waiting = [each for each in outcomes if each.state not in FINAL_TASKS and each.error]
    tries = turn.shared.patience.failed(operation, turn.host) if waiting else 0
    for each in waiting:
        unknown = isinstance(each.error, OutcomeUnknown)
        cut = isinstance(each.error, (*CUT, Interrupted))
        if tries >= UNTOLD if unknown else not cut:
            yield f"{each.verb} of {each.vm} on {each.host}: {each.error}"
