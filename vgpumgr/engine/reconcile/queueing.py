"""The queue's turn among those of hosts: one controller has it at a time."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.reconcile.context import QueueMemory, Shared
from vgpumgr.engine.reconcile.events import Emit, Event, EventKind, task_event
from vgpumgr.engine.reconcile.lanes import Lane
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import queue
from vgpumgr.model.journal import FINAL_TASKS

# No host is called so.
LANE = "queue:"


def take(session: Session, lane: Lane, shared: Shared, emit: Emit) -> bool:
    """The whole turn, unless another controller has it; was anything begun? LedgerError ends it."""
    if not session.ledger.claim(LANE):
        return False
    own = replace(session, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
    try:
        worked = queue.step(own, shared.patience.ready, shared.queue.kept)
    finally:
        session.ledger.release(LANE)
    shared.queue.kept = worked.kept
    for each in worked.failed:
        shared.patience.failed(each)
    _tell(worked, emit)
    _tell_lacking(session.expected.latest.warning, shared.queue, emit)
    return worked.any


def _tell_lacking(warning: str, memory: QueueMemory, emit: Emit) -> None:
    """Once each time that it begins, or is another."""
    if warning and warning != memory.lacking:
        emit(Event(kind=EventKind.PLAN_MISSING, text=warning))
    memory.lacking = warning


def _tell(worked: queue.Worked, emit: Emit) -> None:
    for name in worked.ended:
        text = f"{name} has ended: its guest powered off; its resources are released"
        emit(Event(kind=EventKind.QUEUE_ENDED, vm=name, text=text))
    for name, other in worked.preempted.items():
        text = f"{name} is preempted by {other}, and waits again"
        emit(Event(kind=EventKind.QUEUE_PREEMPTED, vm=name, text=text))
    for name, why in worked.refused.items():
        text = f"{name} could not start and keeps waiting: {why}"
        emit(
            Event(kind=EventKind.QUEUE_WAITS, vm=name, text=text, next=f"vgpumgr queue show {name}")
        )
    for each in worked.outcomes:
        if each.error is not None or each.state not in FINAL_TASKS:
            emit(task_event(each, ended=each.state in FINAL_TASKS))
        elif each.vm in worked.started:
            text = f"{each.vm} starts on {each.host}"
            emit(Event(kind=EventKind.QUEUE_STARTED, vm=each.vm, host=each.host, text=text))
