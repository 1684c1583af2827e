"""Open a ledger that is a file, making or migrating it where it may."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, file_database
from vgpumgr.store.faults import Unwritable
from vgpumgr.store.identity import require_one_name
from vgpumgr.store.migrate import Migration, migrate
from vgpumgr.store.opening.snapshot import still_view
from vgpumgr.store.opening.tables import create_tables, empty_view, new_fleet, version
from vgpumgr.store.publish import publish
from vgpumgr.store.schema import SCHEMA_VERSION

Migrated = Callable[[Migration], None]


def open_file(path: Path, patience_s: float, migrated: Migrated, *, create: bool) -> Database:
    """The database in a file. With ``create`` a missing one is made, an older one migrated.

    Conflict for a file of several names. Without ``create`` it can be read on a full or read-only
    disk.
    """
    if not path.exists():
        if not create:
            return empty_view(str(path))
        _make(path, patience_s)
    require_one_name(path)
    database = file_database(str(path), patience_s)
    if create:
        _migrate_older(database, path, migrated)
        return database
    return _readable(database, path)


def _readable(database: Database, path: Path) -> Database:
    """The same where it can be read as it is; else a view of it that needs no writing."""
    try:
        with database.read() as connection:
            connection.exec_driver_sql("PRAGMA schema_version")
    except Unwritable as error:
        database.close()
        return still_view(path, error)
    except LedgerError:
        database.close()
        raise
    return database


def _make(path: Path, patience_s: float) -> None:
    """Make the whole ledger beside its place, then link it in: nobody meets half a ledger."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.touch(mode=0o600)
            _fill(made, patience_s)
            publish(made, path)  # or another process was faster; its ledger is as good
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be created",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"ls -ld {path.parent}, or choose another place with ledger: in the config",
        ) from error


def _fill(path: Path, patience_s: float) -> None:
    database = file_database(str(path), patience_s)
    with database.write() as connection:
        create_tables(connection, new_fleet())
    database.close()


def _migrate_older(database: Database, path: Path, migrated: Migrated) -> None:
    if version(database) < SCHEMA_VERSION:
        try:
            migrated(migrate(database, path))
        except LedgerError:
            database.close()
            raise
