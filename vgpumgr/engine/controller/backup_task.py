"""The cycle of VMs' backups as `serve` takes it: claimed, taken, told."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.backups import backup_cycle
from vgpumgr.engine.backups.backup_cycle import BackupCycleReport
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.operation import TaskState

# No host is called so.
BACKUP_THREAD = "backups:"
# Seconds until the next look where nothing was due.
REST_S = 30.0


class BackupTask:
    """Takes the cycle, and remembers of which failures it told."""

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit
        self._due = 0.0
        self._told: dict[str, str] = {}

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything done?"""
        context = self._context
        if context.clock.monotonic() < self._due:
            return False
        if not backup_cycle.works(context) or not context.ledger.claim(BACKUP_THREAD):
            self._due = context.clock.monotonic() + REST_S
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            worked = backup_cycle.step(own, self._patience.ready)
        finally:
            context.ledger.release(BACKUP_THREAD)
        self._tell(worked)
        if not worked.any:
            self._due = context.clock.monotonic() + REST_S
        return worked.any

    def _tell(self, worked: BackupCycleReport) -> None:
        for each in worked.ended:
            if each.state is TaskState.DONE:
                text = f"{each.vm} was backed up"
                self._emit(
                    ControllerEvent(
                        kind=EventKind.VM_BACKED_UP, vm=each.vm, host=each.host, text=text
                    )
                )
        for what, error in worked.failed.items():
            self._patience.failed(what)
            said = f"{error.message}: {error.why}" if error.why else error.message
            if self._told.get(what) != said:
                self._emit(
                    ControllerEvent(
                        kind=EventKind.VM_BACKUP_FAILED,
                        subject=what,
                        text=f"backup {what}: {said}",
                        next=error.next or "vgpumgr backup list",
                    )
                )
            self._told[what] = said
        for what in worked.well & self._told.keys():
            self._patience.done(what)
            del self._told[what]
