"""The controller as a process: its ledger and hosts, its status file, and its end."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vgpumgr import API_VERSION
from vgpumgr.app.backup_schedule import scheduled_backups
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.app.console_proxy import ticket_service
from vgpumgr.app.notifications.notices import NoticeBuffer
from vgpumgr.app.notifications.notification_schedule import scheduled_notifications
from vgpumgr.app.purge_schedule import scheduled_purges
from vgpumgr.app.setting_values import Unasked
from vgpumgr.app.telemetry_schedule import scheduled_telemetry
from vgpumgr.app.trail_sealer import trail_sealer
from vgpumgr.app.webhooks.delivery_schedule import scheduled_deliveries
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_schedule import ControllerStatus, ProbePauses
from vgpumgr.engine.controller.cycle_threads import ThreadCycleRunner
from vgpumgr.engine.controller.host_cycle import CycleEnd
from vgpumgr.engine.controller.power_task import PowerPolicy
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import ClaimLost, Conflict, LedgerError
from vgpumgr.store.admin.opening import file_path

# While nothing changes it is written so often, in seconds: its age tells whether we live.
FRESH_S = 10.0
# Writing it takes at most this share of the time: of thousands of hosts it is a large file.
_SHARE = 0.005


class StatusFile:
    """Written by one process; a file that cannot be written stops nobody."""

    def __init__(self, path: Path, interval_s: float) -> None:
        self._path = path
        self._head = {
            "apiVersion": API_VERSION,
            "kind": "ServeStatus",
            "pid": os.getpid(),
            "started_at": time.time(),
            "interval_s": interval_s,
        }
        self._last = self._written = ControllerStatus(at=0.0)
        self._not_before = 0.0

    def show(self, status: ControllerStatus) -> None:
        """Write it, if it says anything new and the last time was long enough ago."""
        self._last = status
        began = time.monotonic()
        if began < self._not_before:
            return
        same = replace(status, at=self._written.at) == self._written
        # A clock that was put back makes it new at once.
        if not (same and 0 <= status.at - self._written.at < FRESH_S):
            self._write(status, running=True)
            ended = time.monotonic()
            self._not_before = ended + (ended - began) / _SHARE

    def close(self) -> None:
        """Say that we have ended."""
        self._write(self._last, running=False)

    def _write(self, status: ControllerStatus, *, running: bool) -> None:
        self._written = status
        text = json.dumps({**self._head, "running": running, **to_plain(status)})
        # A name that nobody foresees, and never what is there: the folder may be shared.
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            try:
                with draft.open("x") as stream:
                    stream.write(text)
                draft.replace(self._path)
            except OSError:
                draft.unlink(missing_ok=True)


# Between two lives, in seconds; and how much longer than one host call an end may take.
_PAUSE_S, _GRACE_S = 2.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """``workers`` is how many hosts are worked on at once, ``status`` the file for lookers."""

    interval_s: float
    workers: int
    status: Path


class ControllerProcess:
    """Serves until :meth:`end` is called, which a signal handler may do."""

    def __init__(
        self, config: Config, options: ControllerOptions, emit: Callable[[ControllerEvent], None]
    ) -> None:
        self._config = config
        self._options = options
        self._notices = NoticeBuffer()
        self._emit = self._notices.telling(emit)
        self._stop = threading.Event()
        self._turns: ThreadCycleRunner[CycleEnd] | None = None

    @property
    def ending(self) -> bool:
        """Was it told to end?"""
        return self._stop.is_set()

    def end(self) -> None:
        """Let the running host calls end, then return."""
        self._stop.set()
        if self._turns is not None:
            self._turns.wake()

    def run(self) -> bool:
        """Serve; False where at the end a thread still waits for a host.

        A ledger whose claims were lost (its server went away) is opened anew, until it can be.
        Conflict where another process serves the same file.
        """
        known = False
        while True:
            try:
                with self._life() as controller:
                    known = True
                    return self._serve(controller)
            except LedgerError as error:
                if not known:
                    raise
                self._emit(_failed(error))
            if self.ending:
                return True
            time.sleep(_PAUSE_S)

    def once(self) -> tuple[ControllerStatus, bool]:
        """One reconcile cycle of every host: the status, and whether all threads have ended."""
        with self._life(tickets=False) as controller:
            status = controller.once()
            return status, controller.finish(self._grace_s)

    def _serve(self, controller: Controller) -> bool:
        try:
            controller.run()
        except ClaimLost:
            # A thread that does not end must not meet what the next life does.
            if not controller.finish(self._grace_s):
                raise SystemExit(1) from None
            raise
        return controller.finish(self._grace_s)

    @property
    def _grace_s(self) -> float:
        return self._config.call_timeout_s + _GRACE_S

    @contextmanager
    def _life(self, *, tickets: bool = True) -> Iterator[Controller]:
        app, status = App(self._config), StatusFile(self._options.status, self._options.interval_s)
        app.stop = self._stop
        app.unasked = True
        with closing(app):
            self._be_the_only_one(app)
            self._turns = ThreadCycleRunner(self._options.workers, app.engine.clock)
            beside: ThreadCycleRunner[bool] = ThreadCycleRunner(5, app.engine.clock)
            pace = ProbePauses(self._options.interval_s)
            beginning = self._beside(app) if tickets else nullcontext()
            with closing(status), beginning:
                yield Controller(
                    app.engine,
                    self._turns,
                    pace,
                    emit=self._emit,
                    show=status.show,
                    beside=beside,
                    most_fragmented=self._config.defrag_threshold,
                    evacuates=self._config.evacuate is Unasked.AUTOMATIC,
                    defrags=self._config.defrag_mode is Unasked.AUTOMATIC,
                    health=self._config.health,
                    power=PowerPolicy(mode=self._config.power_mode, health=self._config.health),
                    figures=lambda: app.telemetry_files.sample(time.time()),
                )

    @contextmanager
    def _beside(self, app: App) -> Iterator[None]:
        """What is done while hosts are reconciled: tickets are given, the trail is sealed, the
        ledger is backed up, what has ended is purged, webhooks are sent what is new, people mail,
        figures of GPUs are read.
        """
        ledger = app.writable_ledger
        with (
            trail_sealer(ledger, self._config.keys_dir, self._emit),
            scheduled_backups(ledger, self._config, self._emit),
            scheduled_purges(app, self._emit),
            scheduled_deliveries(ledger, self._config, self._emit),
            scheduled_notifications(ledger, self._config, app.secrets, self._notices, self._emit),
            scheduled_telemetry(app, self._emit),
            self._tickets(app),
        ):
            yield

    def _tickets(self, app: App) -> AbstractContextManager[None]:
        return ticket_service(
            app.engine,
            open_s=self._config.ticket_s,
            timeout_s=self._config.call_timeout_s,
            emit=self._emit,
        )

    def _be_the_only_one(self, app: App) -> None:
        """A file has one writer at a time, so one controller is all that it can use."""
        if file_path(self._config.ledger) is None or app.writable_ledger.claim("serve"):
            return
        raise Conflict(
            f"another `vgpumgr serve` works on {self._config.ledger}",
            why="a ledger file has one; several share a ledger on PostgreSQL",
            next="systemctl status vgpumgr-serve, or fuser -v LEDGER.locks/serve",
        )


def _failed(error: LedgerError) -> ControllerEvent:
    text = f"{error.message}: {error.why}; the ledger is reopened"
    return ControllerEvent(kind=EventKind.LEDGER_FAILED, text=text, next=error.next)
