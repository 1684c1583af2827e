"""Open a ledger: find or make the database, and refuse one that is not ours to use."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from vgpumgr.store.claims import Claims
from vgpumgr.store.database import Database, file_database
from vgpumgr.store.identity import require_one_name
from vgpumgr.store.locks import FileLocks, locks_folder
from vgpumgr.store.migrate import Migration, migrate, wipe
from vgpumgr.store.opening.address import file_path
from vgpumgr.store.opening.file import Migrated, open_file
from vgpumgr.store.opening.server import open_server
from vgpumgr.store.opening.tables import checked, none_yet, refuse_newer, version
from vgpumgr.store.schema import meta
from vgpumgr.store.server_locks import ServerLocks

BUSY_TIMEOUT_S = 15.0


def open_database(
    url: str | Path,
    *,
    create: bool,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    migrated: Migrated = lambda _: None,
) -> Database:
    """The database behind a path or URL, its schema checked; LedgerError otherwise.

    With ``create`` a missing ledger is made, and an older file migrated: ``migrated`` is told so.
    """
    path = file_path(url)
    if path is None:
        return checked(open_server(str(url), busy_timeout_s, create=create))
    return checked(open_file(path, busy_timeout_s, migrated, create=create))


def claims_of(database: Database, url: str | Path) -> Claims:
    """How claims are held on a ledger: files beside its file, or sessions of its server."""
    path = file_path(url)
    if path is not None:
        return FileLocks(locks_folder(path))
    with database.read() as connection:
        fleet = connection.execute(select(meta.c.fleet_id)).scalar_one()
    return ServerLocks(database.engine, fleet, database.where)


def migrate_ledger(url: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Migration:
    """Bring an older ledger to today's schema; LedgerError when there is none.

    A file is copied beside itself first; a server's ledger is its operator's to back up.
    """
    path = file_path(url)
    if path is None:
        database = open_server(str(url), busy_timeout_s, create=False)
    elif path.exists():
        require_one_name(path)
        database = file_database(str(path), busy_timeout_s)
    else:
        raise none_yet(str(path))
    try:
        refuse_newer(version(database), database.where)
        done = migrate(database, path)
        if path is not None and done.before == done.after:
            wipe(path)
        return done
    finally:
        database.close()
