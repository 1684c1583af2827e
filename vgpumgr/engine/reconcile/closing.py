"""How an operation stands after somebody worked on it whose it was not."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.reconcile.events import Emit, Event, EventKind
from vgpumgr.engine.reconcile.pace import Patience
from vgpumgr.engine.running.outcome import operation_state
from vgpumgr.engine.running.refusals import standing
from vgpumgr.engine.running.status import NEEDS_OPERATOR, ways_on
from vgpumgr.model.journal import OperationMoved, OperationRecord, OperationState
from vgpumgr.model.ports import Clock, Ledger

ENDED = "its process had died; serve closed the operation"


@dataclass(frozen=True, slots=True)
class Closing:
    """Writes it down, and tells of it."""

    ledger: Ledger
    clock: Clock
    patience: Patience
    emit: Emit

    def __call__(self, operation: str, reasons: str) -> None:
        """``reasons``: why it can go neither forward nor back; empty where it may yet."""
        before = self.ledger.operation(operation)
        if before.ended_at is not None:
            return
        state = operation_state([task.state for task in standing(self.ledger.tasks(operation))])
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


def _ended(before: OperationRecord, state: OperationState) -> Event:
    return Event(
        kind=EventKind.OPERATION_ENDED,
        operation=before.id,
        state=str(state),
        text=f"{before.kind} {before.id[:8]}, whose process had died, is {state}",
    )


def _needs_operator(before: OperationRecord, summary: str, ways: str) -> Event:
    short = before.id[:8]
    return Event(
        kind=EventKind.NEEDS_OPERATOR,
        operation=before.id,
        state=str(OperationState.INTERRUPTED),
        text=f"{before.kind} {short}: {summary}",
        next=f"vgpumgr operation show {short}, then {ways}",
    )
