"""A ledger on a disk that is full or read-only, read from a copy in memory.

SQLite needs to write beside a file in WAL mode even to read it. So what can be read is copied into
memory: as the ledger is at one moment, log and all.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database.connections import Database, memory_database

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
_TRIES = 5


def still_view(path: Path, why: LedgerError) -> Database:
    """The ledger as it is now; whoever writes meets ``why``. It is raised at once where the file
    cannot be read either.
    """
    view = memory_database(str(path))
    try:
        with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
            copy = Path(folder) / "ledger"
            _copy(path, copy, why)
            _load(copy, view)
    except (OSError, sqlite3.Error) as error:
        view.close()
        raise why from error
    view.frozen = why
    return view


def _copy(path: Path, copy: Path, why: LedgerError) -> None:
    """The file and its log as they are at one moment; LedgerError while somebody writes them."""
    for _ in range(_TRIES):
        before = _states(path)
        for part in _parts(path):
            name = copy.name + part.name.removeprefix(path.name)
            shutil.copyfile(part, copy.with_name(name))
        if _states(path) == before:
            return
    raise why


def _parts(path: Path) -> list[Path]:
    log = path.with_name(f"{path.name}-wal")
    return [path, *([log] if log.exists() else [])]


def _states(path: Path) -> list[tuple[int, int, int]]:
    found = [part.stat() for part in _parts(path)]
    return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]


def _load(copy: Path, view: Database) -> None:
    with closing(sqlite3.connect(copy)) as source, closing(view.engine.raw_connection()) as target:
        source.backup(target.driver_connection)  # type: ignore[arg-type]
