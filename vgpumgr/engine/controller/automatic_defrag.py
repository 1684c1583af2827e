"""The moves that `serve` makes: above the threshold by itself, and those that wait for a logoff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.fragmentation_watch import EVERY_S, GaugeWatch
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.defrag import defrag_apply
from vgpumgr.engine.defrag.defrag_plan import DefragRequest, find
from vgpumgr.engine.migration import logoff_moves
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.model.defrag import DefragMoves
from vgpumgr.model.operation import FINAL_TASKS

# No host is called so.
MOVE_THREAD = "moves:"
# Moves that a turn makes by itself, at most.
MOST_MOVES = 4


class MoveTask:
    """Makes the moves; ``automatic``: moves that ``gauge`` calls for are made unasked."""

    def __init__(
        self,
        context: EngineContext,
        patience: RetryBackoff,
        gauge: GaugeWatch,
        emit: Emit,
        *,
        automatic: bool,
    ) -> None:
        self._context = context
        self._patience = patience
        self._gauge = gauge
        self._emit = emit
        self._automatic = automatic
        self._due = 0.0
        self._refused: dict[str, str] = {}

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything begun?"""
        context = self._context
        defrags = self._automatic and self._gauge.high and context.clock.monotonic() >= self._due
        if not (defrags or context.ledger.logoff_moves()) or not context.ledger.claim(MOVE_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            moved = self._after_logoff(own)
            return (self._defrag(own) if defrags else False) or moved
        finally:
            context.ledger.release(MOVE_THREAD)

    def _after_logoff(self, context: EngineContext) -> bool:
        worked = logoff_moves.step(context, self._patience.ready)
        for each, what in worked.ended:
            self._patience.done(each.id)
            text = f"{each.vm}: {each.user} has logged off, {what}"
            self._emit(ControllerEvent(kind=EventKind.MOVED, vm=each.vm, host=each.host, text=text))
        for id_, why in worked.refused.items():
            self._patience.failed(id_)
            if self._refused.get(id_) != why:
                text = f"{why}; its move stays pending"
                self._emit(
                    ControllerEvent(
                        kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag list"
                    )
                )
        self._refused = dict(worked.refused)
        for each_done in worked.outcomes:
            if each_done.error is not None or each_done.state not in FINAL_TASKS:
                self._emit(task_event(each_done, ended=each_done.state in FINAL_TASKS))
        _look_at(context, worked.outcomes)
        return bool(worked.ended or worked.outcomes)

    def _defrag(self, context: EngineContext) -> bool:
        """A few moves at a time; the gauge is looked at again before there are more."""
        self._due = context.clock.monotonic() + EVERY_S
        waiting = {each.vm for each in context.ledger.logoff_moves()}
        context.refresh_all()
        wanted = DefragRequest(share=self._gauge.most, at_logoff=True, most=MOST_MOVES)
        planned = find(context, wanted)
        if not isinstance(planned.found, DefragMoves) or not planned.found.moves:
            return False
        left = tuple(each for each in planned.found.moves if each.vm not in waiting)
        done = defrag_apply.apply(
            context, replace(planned, found=replace(planned.found, moves=left))
        )
        _look_at(context, done.outcome.vms)
        for move in done.done:
            host = move.target.host
            where = f"to another GPU of {host}" if move.within else f"{move.source.host} → {host}"
            text = f"{move.vm} was moved {where}, to reduce fragmentation"
            self._emit(ControllerEvent(kind=EventKind.MOVED, vm=move.vm, host=host, text=text))
        for move in done.waiting:
            text = f"{move.vm} moves when {move.user} logs off, to reduce fragmentation"
            self._emit(ControllerEvent(kind=EventKind.MOVE_WAITS, vm=move.vm, text=text))
        if done.error is not None:
            text = f"a move to reduce fragmentation was refused: {done.error.message}"
            self._emit(
                ControllerEvent(kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag plan")
            )
        return bool(done.done or done.waiting)


def _look_at(context: EngineContext, outcomes: Iterable[VmOutcome]) -> None:
    """Lists show what was done."""
    if touched := {host for each in outcomes for host in each.hosts}:
        context.refresh(touched)
