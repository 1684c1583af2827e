"""Hosts are asked for their figures every few seconds: by `serve`, by one process per machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.app.power_meters import PowerMeters
from vgpumgr.app.setting_values import SeriesChoice
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.workers.thread_workers import ThreadWorkers
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import ClaimLost, VgpumgrError
from vgpumgr.telemetry.licence_watch import LicenceNotice
from vgpumgr.telemetry.telemetry_round import TelemetryOptions, TelemetryRound

_END_S = 5.0


def telemetry_options(config: Config) -> TelemetryOptions:
    """What the settings say."""
    return TelemetryOptions(
        interval_s=config.telemetry_interval,
        details=config.telemetry_series is SeriesChoice.ALL,
        users=config.telemetry_user_labels,
    )


def licence_event(notice: LicenceNotice) -> ControllerEvent:
    """The event for what is new of a guest's licence, or of an edition's seats."""
    if notice.vm:
        kind = EventKind.VM_LICENSED if notice.over else EventKind.VM_UNLICENSED
        next = f"vgpumgr vm explain-performance {notice.vm}; the guest's gridd.conf and clock"
    else:
        kind = EventKind.LICENCE_SHORT_ENDED if notice.over else EventKind.LICENCE_SHORT
        next = "vgpumgr licence list; vgpumgr vm stop --release-gpu frees a seat"
    return ControllerEvent(
        kind=kind,
        text=notice.text,
        vm=notice.vm,
        host=notice.host,
        subject=notice.edition,
        next="" if notice.over else next,
    )


@contextmanager
def scheduled_telemetry(app: App, emit: Emit) -> Iterator[None]:
    """The newest figures are there while the block lasts, unless the settings ask for none."""
    if not app.config.telemetry_interval:
        yield
        return
    schedule = TelemetrySchedule(app, emit)
    thread = threading.Thread(target=carried(schedule.run), name="vgpumgr-telemetry", daemon=True)
    thread.start()
    try:
        yield
    finally:
        schedule.end()
        thread.join(_END_S)


class TelemetrySchedule:
    """A round every interval; where another process of this machine does it, a look whether it
    still does.
    """

    def __init__(self, app: App, emit: Emit) -> None:
        self._app = app
        self._emit = emit
        self._ending = threading.Event()
        self._files = app.telemetry_files
        self._failing = ""
        self._interval_s = app.config.telemetry_interval

    def end(self) -> None:
        """Begin no other round."""
        self._ending.set()

    def run(self) -> None:
        """Take rounds until :meth:`end` is called or the ledger's claims are lost."""
        while not self._ending.is_set():
            try:
                with self._files.owned() as ours:
                    if ours:
                        self._serve()
                        return
            except OSError as error:
                self._tell(f"{error.strerror}: {error.filename}")
            self._ending.wait(self._interval_s)

    def _serve(self) -> None:
        lanes = ThreadWorkers(self._app.config.lanes)
        rounds = TelemetryRound(
            self._app.engine,
            lanes,
            telemetry_options(self._app.config),
            PowerMeters(self._app.secrets.read).newest,
        )
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._interval_s, time.monotonic())
            try:
                found = rounds.take()
                self._files.write(found)
                for each in found.notices:
                    self._emit(licence_event(each))
                self._failing = ""
            except ClaimLost:
                return  # told by who else works on it
            except VgpumgrError as error:
                self._tell(f"{error.message}: {error.why}")
            except OSError as error:
                self._tell(f"{error.strerror}: {error.filename}")
            except Exception as defect:
                self._tell(f"{type(defect).__name__}: {defect}")

    def _tell(self, why: str) -> None:
        """Once, until it goes well again."""
        if why != self._failing:
            self._failing = why
            text = f"the figures of GPUs are not renewed: {why}"
            next = "vgpumgr doctor; the setting telemetry_dir says where they lie"
            self._emit(ControllerEvent(kind=EventKind.TELEMETRY_FAILED, text=text, next=next))
