"""A folder of backups that were made on schedule: named by fleet and moment, the oldest removed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.ledger_state import Backup, KeptBackup
from vgpumgr.store.admin import backups
from vgpumgr.store.database.connections import Database
from vgpumgr.store.schema import meta

_MOMENT = "%Y%m%dT%H%M%SZ"
_ABANDONED_S = 3600.0


def kept_backups(folder: Path, fleet: str) -> tuple[KeptBackup, ...]:
    """The backups of this fleet that are there, the oldest first; LedgerError where the folder
    cannot be read.
    """
    named = re.compile(rf"vgpumgr-{re.escape(fleet)}-(\d{{8}}T\d{{6}}Z)")
    found = []
    for entry, status in _entries(folder):
        name = named.fullmatch(entry.name)
        if name is None or not stat.S_ISREG(status.st_mode):
            continue
        with suppress(ValueError):
            at = datetime.strptime(name[1], _MOMENT).replace(tzinfo=UTC).timestamp()
            own = status.st_uid == os.geteuid()
            found.append(KeptBackup(path=entry, at=at, size=status.st_size, own=own))
    return tuple(sorted(found, key=lambda each: each.at))


def keep_backup(database: Database, folder: Path, keep: int, at: float) -> Backup:
    """Write one, look whether it could be restored, then remove the oldest beyond ``keep``.

    Only files of this fleet and this user are removed. LedgerError where it cannot be written or is
    not what was written; then nothing is removed but the parts of backups that were cut short.
    """
    with database.read() as connection:
        fleet = str(connection.execute(select(meta.c.fleet_id)).scalar_one())
    _clear_parts(folder, fleet, time.time())
    moment = datetime.fromtimestamp(at, UTC).strftime(_MOMENT)
    path = folder.absolute() / f"vgpumgr-{fleet}-{moment}"
    made = backups.back_up(database, path, draft=_draft(fleet))
    try:
        _read_back(path)
    except LedgerError:
        _remove(path)  # it would count as the newest one
        raise
    others = [each for each in kept_backups(folder, fleet) if each.own and each.path != path]
    for each in others[: max(0, len(others) + 1 - keep)]:
        _remove(each.path)
    return made


def _read_back(path: Path) -> None:
    """LedgerError unless it could be restored."""
    try:
        with backups.opened_backup(path):
            pass
    except OSError as error:
        raise LedgerError(
            f"the backup {path} cannot be read back", why=str(error), next=f"ls -l {path}; df -h"
        ) from error


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    backups.digest_path(path).unlink(missing_ok=True)


def _draft(fleet: str) -> str:
    """How the names of folders begin in which a backup is written."""
    return f".vgpumgr-{fleet}-"


def _clear_parts(folder: Path, fleet: str, now: float) -> None:
    """Remove what processes left here that were killed in the middle of a backup.

    Nothing that is younger than an hour: another controller may be at work on it.
    """
    sum_ = re.compile(rf"\.?(vgpumgr-{re.escape(fleet)}-\d{{8}}T\d{{6}}Z)\.sha256(\.new)?")
    for entry, status in _entries(folder):
        if status.st_uid != os.geteuid() or now - status.st_mtime < _ABANDONED_S:
            continue
        name = sum_.fullmatch(entry.name)
        if name and stat.S_ISREG(status.st_mode) and not entry.with_name(name[1]).exists():
            entry.unlink(missing_ok=True)
        elif entry.name.startswith(_draft(fleet)) and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(entry, ignore_errors=True)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What lies there, links not followed."""
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise LedgerError(
            f"the folder for backups {folder} cannot be read",
            why=error.strerror or str(error),
            next=f"ls -ld {folder}; findmnt --target {folder}",
        ) from error
    for entry in entries:
        with suppress(FileNotFoundError):
            yield entry, entry.lstat()
