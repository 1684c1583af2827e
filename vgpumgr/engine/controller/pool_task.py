"""The cycle of the pools as `serve` takes it: claimed, taken, told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.desktop_task import desktop_event
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.migration.user_messages import TellKey
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools import pool_cycle, session_activity, session_warnings
from vgpumgr.engine.pools.pool_habits import PoolHabits
from vgpumgr.engine.pools.pool_loads import PoolLoads
from vgpumgr.engine.pools.profile_disks import ProfileDiskNotice, ProfileDisks
from vgpumgr.model.operation import FINAL_TASKS

# No host is called so.
POOL_THREAD = "pools:"
# So often it is seen whether a session ends soon.
TELL_S = 15.0


class PoolTask:
    """Takes the cycle, and remembers of what it warned."""

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit
        self._warned: frozenset[tuple[str, str]] = frozenset()
        self._refused: dict[str, str] = {}
        self._loads = PoolLoads()
        self._habits = PoolHabits()
        self._disks = ProfileDisks(context)
        self._disk_waits: dict[tuple[str, str], str] = {}
        self._told: set[TellKey] = set()
        self._tell_at = context.clock.monotonic()

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything begun?"""
        context = self._context
        if not context.ledger.pools() and not context.ledger.profile_disks():
            return False
        loads = self._loads.windows(context)
        if not context.ledger.claim(POOL_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            session_activity.note_work(context)
            self._tell_disks(list(self._disks.step()))
            self._tell_users(own)
            expected = self._habits.expected(context)
            held = self._disks.held_desktops
            worked = pool_cycle.step(own, self._patience.ready, loads, expected, held)
        finally:
            context.ledger.release(POOL_THREAD)
        for row in worked.moved:
            if row.desktop.ready:
                self._patience.done(row.id)
                self._patience.done(row.pool)
        for each in worked.failed:
            self._patience.failed(each)
        self._tell(worked)
        return worked.any

    def _tell_users(self, context: EngineContext) -> None:
        """Tell users whose sessions end soon."""
        now = context.clock.monotonic()
        if now < self._tell_at:
            return
        self._tell_at = now + TELL_S
        for each in session_warnings.tell_pool_users(context, self._told):
            kind = EventKind.USER_NOT_TOLD if each.why else EventKind.USER_TOLD
            self._emit(ControllerEvent(kind=kind, vm=each.desktop, host=each.host, text=each.text))

    def _tell_disks(self, notices: Sequence[ProfileDiskNotice]) -> None:
        """What waits is told once, until it is another reason."""
        for each in notices:
            user = each.pool, each.user
            if each.why and self._disk_waits.get(user) == each.why:
                continue
            self._disk_waits[user] = each.why
            kind = EventKind.PROFILE_DISK_WAITS if each.why else EventKind.PROFILE_DISK
            self._emit(ControllerEvent(kind=kind, vm=each.vm, host=each.host, text=each.text))

    def _tell(self, worked: pool_cycle.PoolCycleReport) -> None:
        for row in worked.moved:
            if event := desktop_event(row):
                self._emit(event)
        for each in worked.outcomes:
            if each.error is not None or each.state not in FINAL_TASKS:
                self._emit(task_event(each, ended=each.state in FINAL_TASKS))
        for name, why in worked.refused.items():
            if self._refused.get(name) != why:
                self._emit(
                    ControllerEvent(kind=EventKind.POOL_WAITS, vm=name, text=f"{name} waits: {why}")
                )
        self._refused = dict(worked.refused)
        self._warn(worked)

    def _warn(self, worked: pool_cycle.PoolCycleReport) -> None:
        """Once, until it is over."""
        found = {
            (name, each.code): each.text
            for name, warnings in worked.warnings.items()
            for each in warnings
        }
        for (name, code), text in found.items():
            if (name, code) not in self._warned:
                self._emit(
                    ControllerEvent(
                        kind=EventKind.POOL_WARNS,
                        subject=name,
                        state=code,
                        text=f"pool {name}: {text}",
                        next=f"vgpumgr pool explain {name}",
                    )
                )
        self._warned = frozenset(found)
