"""Opening of a ledger: the database behind a path or URL, made or migrated where needed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.admin.migrations import Migration, empty_log, migrate, wipe
from vgpumgr.store.database.connections import Database, file_database, memory_database, retried
from vgpumgr.store.database.faults import Unwritable
from vgpumgr.store.database.ledger_file import publish, require_one_name
from vgpumgr.store.database.locks import FileLocks, ProcessLocks, locks_folder
from vgpumgr.store.database.postgresql import AdvisoryLocks, server_database
from vgpumgr.store.schema import SCHEMA_VERSION, meta, metadata

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


HOW = "set ledger: to a file path, or to postgresql://USER@HOST/DATABASE"


def file_path(url: str | Path) -> Path | None:
    """The ledger's file, without symbolic links on the way; None where a server keeps it."""
    if isinstance(url, Path) or "://" not in url:
        return _real(Path(url).expanduser())
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _real(Path(parsed.database or ""))
    return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def parse(url: str) -> URL:
    """The parts of an SQLAlchemy URL; LedgerError for what is none."""
    try:
        return make_url(url)
    except ArgumentError as error:
        raise LedgerError(
            "the ledger's address is not understood", why=str(error), next=HOW
        ) from error


def as_psql(url: URL) -> str:
    """The address as psql takes it, without any password."""
    plain = url.set(drivername="postgresql", password=None).difference_update_query(["password"])
    return plain.render_as_string()


def new_fleet() -> str:
    """The id of a fleet that was never there before."""
    return str(uuid.uuid4())


def create_tables(connection: Connection, fleet_id: str) -> None:
    """An empty ledger of today's schema, in its first epoch."""
    metadata.create_all(connection)
    connection.execute(
        insert(meta).values(id=1, schema_version=SCHEMA_VERSION, fleet_id=fleet_id, epoch=1)
    )


def empty_view(where: str) -> Database:
    """What a ledger that is not there shows: nothing, and nothing can be written."""
    database = memory_database(where)
    with database.write() as connection:
        create_tables(connection, fleet_id="")
    database.frozen = none_yet(where)
    database.absent = True
    return database


def none_yet(where: str) -> LedgerError:
    """The error of whoever needs a ledger that was never made."""
    return LedgerError(
        "there is no ledger yet",
        why=f"{where} does not exist, or is empty",
        next="vgpumgr host add NAME --address USER@HOST",
    )


def checked(database: Database, found: int) -> Database:
    """The database, if its schema, of which ``found`` is the version, is the one we know; closed,
    and LedgerError, otherwise.
    """
    if found == SCHEMA_VERSION:
        return database
    database.close()
    refuse_newer(found, database.where)
    raise LedgerError(
        f"the ledger {database.where} was created by an older vgpumgr",
        why=f"its schema is version {found}, this vgpumgr needs {SCHEMA_VERSION}",
        next="pg_dump it to a file, then vgpumgr store migrate"
        if database.is_server
        else "vgpumgr store migrate   (it keeps a backup beside the ledger)",
    )


def refuse_newer(found: int, where: str) -> None:
    """LedgerError for a schema that we do not know."""
    if found > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {where} was created by a newer vgpumgr",
            why=f"its schema is version {found}, this vgpumgr knows {SCHEMA_VERSION}",
            next="upgrade vgpumgr on this machine",
        )


def version(database: Database) -> int:
    """The version of its schema; closed, and LedgerError, for what is no ledger."""
    try:
        with database.read() as connection:
            return schema_version(connection, database.where)
    except LedgerError:
        database.close()
        raise


def schema_version(connection: Connection, where: str) -> int:
    """The version of its schema; LedgerError for what is no ledger."""
    tables = inspect(connection)
    if tables.has_table("meta") and tables.has_table("unit"):
        found = connection.execute(select(meta.c.schema_version)).scalar()
        if found is not None:
            return int(found)
    raise LedgerError(
        f"{where} is not a vgpumgr ledger",
        why="it is a database of something else, or empty",
        next="set ledger: to another path, or move the file away",
    )


Migrated = Callable[[Migration], None]


def open_file(path: Path, patience_s: float, migrated: Migrated, *, create: bool) -> Database:
    """The database in a file. With ``create`` a missing one is made, an older one migrated.

    Conflict for a file of several names. Without ``create`` it can be read on a full or read-only
    disk.
    """
    if not path.exists():
        if not create:
            return empty_view(str(path))
        _make_file(path, patience_s)
    require_one_name(path)
    database = file_database(str(path), patience_s)
    try:
        found = version(database)
    except Unwritable as error:
        if create:
            raise
        database = still_view(path, error)
        found = version(database)
    if create and found < SCHEMA_VERSION:
        _migrate_older(database, path, migrated)
        return database
    return checked(database, found)


def _make_file(path: Path, patience_s: float) -> None:
    """Make the whole ledger beside its place, then link it in: nobody meets half a ledger."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.touch(mode=0o600)
            _fill(made, patience_s)
            empty_log(made, str(path))
            publish(made, path)  # or another process was faster; its ledger is as good
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be created",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"ls -ld {path.parent}, or choose another place with ledger: in the config",
        ) from error


def _fill(path: Path, patience_s: float) -> None:
    database = file_database(str(path), patience_s)
    try:
        with database.write() as connection:
            create_tables(connection, new_fleet())
    finally:
        database.close()


def _migrate_older(database: Database, path: Path, migrated: Migrated) -> None:
    try:
        migrated(migrate(database, path))
    except LedgerError:
        database.close()
        raise


def open_server(url: str, patience_s: float, *, create: bool) -> Database:
    """The database on a server; without tables, and without ``create``, its lists are empty."""
    database = _connect(url, patience_s)
    if create:
        _make_tables(database)
        return database
    if _has_tables(database):
        return database
    database.close()
    return empty_view(database.where)


def _connect(url: str, patience_s: float) -> Database:
    parsed = parse(url)
    if parsed.get_backend_name() != "postgresql":
        raise LedgerError(
            f"a ledger cannot be kept by {parsed.get_backend_name()}",
            why="it is kept by SQLite or by PostgreSQL",
            next=HOW,
        )
    where = as_psql(parsed)
    try:
        return server_database(parsed.set(drivername="postgresql+psycopg"), where, patience_s)
    except ImportError as error:
        raise LedgerError(
            f"the ledger {where} cannot be opened",
            why=str(error),
            next="pip install 'vgpumgr[postgres]'",
        ) from error


def _has_tables(database: Database) -> bool:
    with database.read() as connection:
        return bool(inspect(connection).get_table_names())


@retried
def _make_tables(database: Database) -> None:
    """Make the tables unless they are there; of two processes one does, the other finds them."""
    try:
        with database.read() as connection:
            there = inspect(connection).has_table(meta.name)
        if not there:
            with database.write() as connection:
                if not inspect(connection).has_table(meta.name):
                    create_tables(connection, new_fleet())
    except LedgerError:
        database.close()
        raise


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
    if path is not None:
        return open_file(path, busy_timeout_s, migrated, create=create)
    database = open_server(str(url), busy_timeout_s, create=create)
    return checked(database, version(database))


def claims_of(database: Database, url: str | Path) -> ProcessLocks:
    """How claims are held on a ledger: files beside its file, or sessions of its server."""
    path = file_path(url)
    if path is not None:
        return FileLocks(locks_folder(path))
    with database.read() as connection:
        fleet = connection.execute(select(meta.c.fleet_id)).scalar_one()
    return AdvisoryLocks(database.engine, fleet, database.where)


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
