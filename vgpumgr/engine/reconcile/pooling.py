"""The turn of the pools among those of hosts: one controller has it at a time."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.reconcile.events import Emit, Event, EventKind, task_event
from vgpumgr.engine.reconcile.lanes import Lane
from vgpumgr.engine.reconcile.pace import Patience
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import pool
from vgpumgr.model.journal import FINAL_TASKS
from vgpumgr.model.pool import DesktopRecord, DesktopState

# No host is called so.
LANE = "pools:"


class PoolTurn:
    """Takes it, and remembers of what it warned."""

    def __init__(self, session: Session, patience: Patience, emit: Emit) -> None:
        self._session = session
        self._patience = patience
        self._emit = emit
        self._warned: frozenset[tuple[str, str]] = frozenset()
        self._refused: dict[str, str] = {}

    def take(self, lane: Lane) -> bool:
        """The whole turn, unless another controller has it; was anything begun?"""
        session = self._session
        if not session.ledger.pools() or not session.ledger.claim(LANE):
            return False
        own = replace(session, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            worked = pool.step(own, self._patience.ready)
        finally:
            session.ledger.release(LANE)
        for row in worked.moved:
            if row.desktop.ready:
                self._patience.done(row.id)
                self._patience.done(row.pool)
        for each in worked.failed:
            self._patience.failed(each)
        self._tell(worked)
        return worked.any

    def _tell(self, worked: pool.Worked) -> None:
        for row in worked.moved:
            if row.doing is None and row.closed_at is None:
                self._tell_desktop(row)
        for each in worked.outcomes:
            if each.error is not None or each.state not in FINAL_TASKS:
                self._emit(task_event(each, ended=each.state in FINAL_TASKS))
        for name, why in worked.refused.items():
            if self._refused.get(name) != why:
                self._emit(Event(kind=EventKind.POOL_WAITS, vm=name, text=f"{name} waits: {why}"))
        self._refused = dict(worked.refused)
        self._warn(worked)

    def _tell_desktop(self, row: DesktopRecord) -> None:
        it = row.desktop
        if it.state is DesktopState.FAILED:
            text = f"{it.name} failed: {row.why}"
            self._emit(Event(kind=EventKind.DESKTOP_FAILED, vm=it.name, host=it.host, text=text))
        elif it.free:
            text = f"{it.name} is ready on {it.host}"
            self._emit(Event(kind=EventKind.DESKTOP_READY, vm=it.name, host=it.host, text=text))

    def _warn(self, worked: pool.Worked) -> None:
        """Once, until it is over."""
        found = {
            (name, each.code): each.text
            for name, warnings in worked.warnings.items()
            for each in warnings
        }
        for (name, code), text in found.items():
            if (name, code) not in self._warned:
                self._emit(
                    Event(
                        kind=EventKind.POOL_WARNS,
                        subject=name,
                        state=code,
                        text=f"pool {name}: {text}",
                        next=f"vgpumgr pool explain {name}",
                    )
                )
        self._warned = frozenset(found)
