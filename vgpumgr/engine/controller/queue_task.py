"""The cycle of the queue as `serve` takes it: claimed, taken, told."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import ControllerState, QueueMemory
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.model.operation import FINAL_TASKS

# No host is called so.
QUEUE_THREAD = "queue:"


def run_queue_cycle(
    context: EngineContext, lane: CycleThread, shared: ControllerState, emit: Emit
) -> bool:
    """The whole cycle, unless another controller has it; anything begun? LedgerError ends it."""
    if not context.ledger.claim(QUEUE_THREAD):
        return False
    own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
    try:
        worked = queue_cycle.step(own, shared.patience.ready, shared.queue.kept, shared.queue.told)
    finally:
        context.ledger.release(QUEUE_THREAD)
    shared.queue.kept = worked.kept
    for each in worked.failed:
        shared.patience.failed(each)
    _tell(worked, emit)
    _tell_lacking(context.expected.latest.warning, shared.queue, emit)
    return worked.any


def _tell_lacking(warning: str, memory: QueueMemory, emit: Emit) -> None:
    """Once each time that it begins, or is another."""
    if warning and warning != memory.lacking:
        emit(ControllerEvent(kind=EventKind.PLAN_MISSING, text=warning))
    memory.lacking = warning


def _tell(worked: queue_cycle.QueueCycleReport, emit: Emit) -> None:
    for name in worked.ended:
        text = f"{name} has ended: its guest powered off; its resources are released"
        emit(ControllerEvent(kind=EventKind.QUEUE_ENDED, vm=name, text=text))
    for name, text in worked.told.items():
        kind = EventKind.QUEUE_RUNTIME_ENDS
        emit(ControllerEvent(kind=kind, vm=name, text=f"{name}: {text}"))
    for name in worked.overdue:
        text = f"{name} is stopped: its runtime is over; its resources are released"
        emit(ControllerEvent(kind=EventKind.QUEUE_OVERDUE, vm=name, text=text))
    for name, other in worked.preempted.items():
        text = f"{name} is preempted by {other}, and waits again"
        emit(ControllerEvent(kind=EventKind.QUEUE_PREEMPTED, vm=name, text=text))
    for name, why in worked.refused.items():
        text = f"{name} could not start and keeps waiting: {why}"
        emit(
            ControllerEvent(
                kind=EventKind.QUEUE_WAITS, vm=name, text=text, next=f"vgpumgr queue show {name}"
            )
        )
    for each in worked.outcomes:
        if each.error is not None or each.state not in FINAL_TASKS:
            emit(task_event(each, ended=each.state in FINAL_TASKS))
        elif each.vm in worked.started:
            text = f"{each.vm} starts on {each.host}"
            emit(
                ControllerEvent(kind=EventKind.QUEUE_STARTED, vm=each.vm, host=each.host, text=text)
            )
