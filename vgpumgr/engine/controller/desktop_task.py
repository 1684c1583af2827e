"""Desktops that become ready as `serve` hands them over: claimed, taken, told."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools.desktop_handover import hand_over
from vgpumgr.model.desktop import DesktopRecord, DesktopState

# No host is called so.
DESKTOP_THREAD = "desktops:"


class DesktopTask:
    """Hands desktops over while the pools' cycle creates others: it has a thread of its own."""

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit

    def take(self, lane: CycleThread) -> bool:
        """One look, unless another controller has it; has a desktop changed?"""
        context = self._context
        if not context.ledger.pools() or not context.ledger.claim(DESKTOP_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            moved = hand_over(own)
        finally:
            context.ledger.release(DESKTOP_THREAD)
        for row in moved:
            self._patience.done(row.id)
            self._patience.done(row.pool)
            if event := desktop_event(row):
                self._emit(event)
        return bool(moved)


def desktop_event(row: DesktopRecord) -> ControllerEvent | None:
    """What is told of a desktop's row that has changed; None where it is of no note."""
    it = row.desktop
    if row.doing is not None or row.closed_at is not None:
        return None
    if it.state is DesktopState.FAILED:
        text = f"{it.name} failed: {row.why}"
        return ControllerEvent(kind=EventKind.DESKTOP_FAILED, vm=it.name, host=it.host, text=text)
    if it.free:
        text = f"{it.name} is ready on {it.host}"
        return ControllerEvent(kind=EventKind.DESKTOP_READY, vm=it.name, host=it.host, text=text)
    return None
