"""The turn of moves among those of hosts: what waited for a logoff, and where that is wanted, what
lowers fragmentation and cuts nobody off. One controller has it at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr.engine.defrag import Wanted, find
from vgpumgr.engine.reconcile.events import Emit, Event, EventKind, task_event
from vgpumgr.engine.reconcile.gauging import EVERY_S, GaugeWatch
from vgpumgr.engine.reconcile.lanes import Lane
from vgpumgr.engine.reconcile.pace import Patience
from vgpumgr.engine.running.outcome import VmOutcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import defrag, logoff
from vgpumgr.model.defrag import Moves
from vgpumgr.model.journal import FINAL_TASKS

# No host is called so.
LANE = "moves:"
# Moves that a turn makes by itself, at most.
MOST_MOVES = 4


class MoveTurn:
    """Takes it; ``automatic``: moves that ``gauge`` calls for are made without being asked for."""

    def __init__(
        self,
        session: Session,
        patience: Patience,
        gauge: GaugeWatch,
        emit: Emit,
        *,
        automatic: bool,
    ) -> None:
        self._session = session
        self._patience = patience
        self._gauge = gauge
        self._emit = emit
        self._automatic = automatic
        self._due = 0.0
        self._refused: dict[str, str] = {}

    def take(self, lane: Lane) -> bool:
        """The whole turn, unless another controller has it; was anything begun?"""
        session = self._session
        defrags = self._automatic and self._gauge.high and session.clock.monotonic() >= self._due
        if not (defrags or session.ledger.logoff_moves()) or not session.ledger.claim(LANE):
            return False
        own = replace(session, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            moved = self._after_logoff(own)
            return (self._defrag(own) if defrags else False) or moved
        finally:
            session.ledger.release(LANE)

    def _after_logoff(self, session: Session) -> bool:
        worked = logoff.step(session, self._patience.ready)
        for each, what in worked.ended:
            self._patience.done(each.id)
            text = f"{each.vm}: {each.user} has logged off, {what}"
            self._emit(Event(kind=EventKind.MOVED, vm=each.vm, host=each.host, text=text))
        for id_, why in worked.refused.items():
            self._patience.failed(id_)
            if self._refused.get(id_) != why:
                text = f"{why}; its move stays pending"
                self._emit(Event(kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag list"))
        self._refused = dict(worked.refused)
        for each_done in worked.outcomes:
            if each_done.error is not None or each_done.state not in FINAL_TASKS:
                self._emit(task_event(each_done, ended=each_done.state in FINAL_TASKS))
        _look_at(session, worked.outcomes)
        return bool(worked.ended or worked.outcomes)

    def _defrag(self, session: Session) -> bool:
        """A few moves at a time; the gauge is looked at again before there are more."""
        self._due = session.clock.monotonic() + EVERY_S
        waiting = {each.vm for each in session.ledger.logoff_moves()}
        session.refresh_all()
        wanted = Wanted(share=self._gauge.most, at_logoff=True, most=MOST_MOVES)
        planned = find(session, wanted)
        if not isinstance(planned.found, Moves) or not planned.found.moves:
            return False
        left = tuple(each for each in planned.found.moves if each.vm not in waiting)
        done = defrag.apply(session, replace(planned, found=replace(planned.found, moves=left)))
        _look_at(session, done.outcome.vms)
        for move in done.done:
            host = move.target.host
            where = f"to another GPU of {host}" if move.within else f"{move.source.host} → {host}"
            text = f"{move.vm} was moved {where}, to reduce fragmentation"
            self._emit(Event(kind=EventKind.MOVED, vm=move.vm, host=host, text=text))
        for move in done.waiting:
            text = f"{move.vm} moves when {move.user} logs off, to reduce fragmentation"
            self._emit(Event(kind=EventKind.MOVE_WAITS, vm=move.vm, text=text))
        if done.error is not None:
            text = f"a move to reduce fragmentation was refused: {done.error.message}"
            self._emit(Event(kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag plan"))
        return bool(done.done or done.waiting)


def _look_at(session: Session, outcomes: Iterable[VmOutcome]) -> None:
    """Lists show what was done."""
    if touched := {host for each in outcomes for host in each.hosts}:
        session.refresh(touched)
