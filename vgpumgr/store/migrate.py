"""Bring an older ledger to today's schema: a backup first, then all steps in one transaction."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, create_engine, select, update
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database
from vgpumgr.store.faults import told
from vgpumgr.store.publish import publish
from vgpumgr.store.schema import SCHEMA_VERSION, meta
from vgpumgr.store.upgrades import STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """From which schema to which; ``backup`` is None on a server, or where nothing was to do."""

    before: int
    after: int
    backup: Path | None = None


def migrate(database: Database, path: Path | None) -> Migration:
    """Migrate the ledger; its file at ``path`` is copied beside itself first (none on a server).

    The write lock is held from the copy to the commit: nobody's work falls between the two.
    """
    with database.write() as connection:
        before = connection.execute(select(meta.c.schema_version).with_for_update()).scalar_one()
        if before >= SCHEMA_VERSION:
            return Migration(before=before, after=before)  # another process was faster
        backup = _back_up(path, before) if path is not None else None
        for version in range(before, SCHEMA_VERSION):
            STEPS[version](connection)
        connection.execute(update(meta).values(schema_version=SCHEMA_VERSION))
    if path is not None:
        wipe(path)
    return Migration(before=before, after=SCHEMA_VERSION, backup=backup)


def wipe(path: Path) -> None:
    """Write the file anew without what was deleted from it, and empty its log."""
    try:
        with told(str(path)), _plain(path) as file:
            file.exec_driver_sql("VACUUM")
            file.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except LedgerError as error:
        raise LedgerError(
            f"the ledger {path} is in today's schema, but its file was not rewritten: "
            "what was deleted from it may still be read there",
            why=f"{error.message}: {error.why}",
            next=f"{error.next}; then vgpumgr store migrate",
        ) from error


def _back_up(path: Path, version: int) -> Path:
    """``ledger.sqlite.schema-1``, or with a number where that is there already."""
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as folder:
            copy = Path(folder) / path.name
            copy.touch(mode=0o600)
            _copy(path, copy, version)
            name = f"{path.name}.schema-{version}"
            names = (path.with_name(f"{name}{f'-{n}' if n else ''}") for n in count())
            return next(each for each in names if publish(copy, each))
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be backed up, so it was not migrated",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"df -h {path.parent}; ls -ld {path.parent}",
        ) from error


def _copy(path: Path, copy: Path, version: int) -> None:
    """Copy a ledger that others may be reading, and read the copy back."""
    with told(str(path)):
        with _plain(path) as source:
            source.exec_driver_sql("VACUUM INTO ?", (str(copy),))
        with _plain(copy) as made:
            sound = made.exec_driver_sql("PRAGMA quick_check").scalar() == "ok"
            found = made.execute(select(meta.c.schema_version)).scalar()
    if not sound or found != version:
        raise LedgerError(
            f"the backup of {path} cannot be read back, so it was not migrated",
            why=f"quick_check says {'ok' if sound else 'damaged'}, schema {found}",
            next=f"vgpumgr doctor; sqlite3 {path} 'PRAGMA integrity_check'",
        )


def _plain(path: Path) -> Connection:
    """A connection outside of any transaction: VACUUM allows none."""
    url = URL.create("sqlite", database=str(path))
    return create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect()
