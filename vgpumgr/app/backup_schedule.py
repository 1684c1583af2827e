"""Backups of the ledger on schedule: by `serve`, by one controller of the fleet at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vgpumgr.app import ledger_admin
from vgpumgr.app.config import Config
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import ClaimLost, VgpumgrError
from vgpumgr.model.formats import span_words
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ledger_state import KeptBackup

CLAIM = "backup"
OVERDUE = 2
"""After this number of intervals without a backup it is said that there is none."""
# How often the folder is looked at, in seconds; how long a failure rests; how long an end may take.
_BEAT_S, _AGAIN_S, _END_S = 10.0, 60.0, 5.0
# A clock may be a little ahead of ours.
_AHEAD_S = 300.0


@contextmanager
def scheduled_backups(ledger: Ledger, config: Config, emit: Emit) -> Iterator[None]:
    """Backups are made while the block lasts, if the settings say where."""
    if config.backup_to is None:
        yield
        return
    schedule = BackupSchedule(ledger, config, config.backup_to, emit)
    thread = threading.Thread(target=carried(schedule.run), name="vgpumgr-backup", daemon=True)
    thread.start()
    try:
        yield
    finally:
        schedule.end()
        thread.join(_END_S)  # one that is cut leaves a part, which a later one removes


class BackupSchedule:
    """Looks whether the newest backup is old enough for another one. The folder itself says which
    there are, so another controller goes on where this one ended.
    """

    def __init__(
        self,
        ledger: Ledger,
        config: Config,
        folder: Path,
        emit: Emit,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._folder = folder
        self._emit = emit
        self._now = now
        self._since = now()
        self._ending = threading.Event()
        self._failing = ""
        self._overdue = False

    def end(self) -> None:
        """Begin no other one."""
        self._ending.set()

    def run(self) -> None:
        """Back up until :meth:`end` is called or the ledger's claims are lost."""
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            try:
                wait_s = _BEAT_S if self.round() else _AGAIN_S
            except ClaimLost:
                return  # told by who else works on it

    def round(self) -> bool:
        """Make one if it is due and this process is the one that makes them; False where that
        failed.
        """
        why = next = ""
        try:
            if self._ledger.claim(CLAIM):
                self._back_up_when_due()
        except ClaimLost:
            raise
        except VgpumgrError as error:
            why, next = f"{error.message}: {error.why}", error.next
        except Exception as defect:
            why, next = f"{type(defect).__name__}: {defect}", "vgpumgr doctor"
        if why and why != self._failing:
            text = f"the ledger was not backed up: {why}"
            self._emit(ControllerEvent(kind=EventKind.BACKUP_FAILED, text=text, next=next))
        self._failing = why
        if why:
            self._tell_overdue()
        return not why

    def _back_up_when_due(self) -> None:
        now = self._now()
        newest = newest_backup(
            [each for each in self._kept() if each.own], now
        )  # one that others put here delays none
        if newest is not None:
            self._since = newest.at
            if now - newest.at < self._config.backup_every:
                return
        made = ledger_admin.keep_backup(self._config, self._folder, now)
        self._since, self._overdue = now, False
        text = f"the ledger was backed up to {made.path}: {made.rows} rows"
        self._emit(ControllerEvent(kind=EventKind.BACKUP_MADE, text=text))

    def _kept(self) -> tuple[KeptBackup, ...]:
        return ledger_admin.kept_backups(self._folder, self._ledger.fleet_id())

    def _tell_overdue(self) -> None:
        """Once, until there is one again."""
        age = self._now() - self._since
        if not self._overdue and age > OVERDUE * self._config.backup_every:
            self._overdue = True
            text = f"no backup of the ledger was made for {span_words(age)}"
            self._emit(
                ControllerEvent(kind=EventKind.BACKUP_OVERDUE, text=text, next="vgpumgr doctor")
            )


def newest_backup(kept: list[KeptBackup], now: float) -> KeptBackup | None:
    """The last that is not from the future: a clock that was wrong once delays no backup."""
    past = [each for each in kept if each.at <= now + _AHEAD_S]
    return past[-1] if past else None
