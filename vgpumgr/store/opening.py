"""Open a ledger: find or make the database, and refuse one that is not ours to use."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, create_engine, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, memory_engine, sqlite_engine
from vgpumgr.store.migrate import Migration, migrate
from vgpumgr.store.publish import publish
from vgpumgr.store.schema import SCHEMA_VERSION, meta, metadata

Migrated = Callable[[Migration], None]


def open_database(
    url: str | Path, *, create: bool, busy_timeout_s: float, migrated: Migrated
) -> Database:
    """The database behind a path or URL, its schema checked; LedgerError otherwise.

    With ``create`` a missing ledger is made, and an older file migrated: ``migrated`` is told so.
    """
    path = _file_path(url)
    if path is None:
        return _checked(_open_server(str(url), create=create))
    if not path.exists():
        if not create:
            return _empty_view(path)
        _make_file(path, busy_timeout_s)
    database = Database(sqlite_engine(str(path), busy_timeout_s), str(path))
    if create:
        _migrate_older(database, path, migrated)
    return _checked(database)


def migrate_ledger(url: str | Path, *, busy_timeout_s: float) -> Migration:
    """Migrate a ledger that is there; a file is backed up beside itself first."""
    path = _file_path(url)
    if path is None:
        database = _open_server(str(url), create=False)
    elif path.exists():
        database = Database(sqlite_engine(str(path), busy_timeout_s), str(path))
    else:
        raise _none_yet(path)
    try:
        _refuse_newer(_version(database), database.where)
        return migrate(database, path)
    finally:
        database.close()


def _migrate_older(database: Database, path: Path, migrated: Migrated) -> None:
    if _version(database) < SCHEMA_VERSION:
        try:
            migrated(migrate(database, path))
        except LedgerError:
            database.close()
            raise


def file_path(url: str | Path) -> Path | None:
    """The ledger's file, or None where a server keeps it."""
    return _file_path(url)


def _file_path(url: str | Path) -> Path | None:
    if isinstance(url, Path) or "://" not in url:
        return Path(url).expanduser().absolute()
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(parsed.database or "").absolute()
    return None


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise LedgerError(
            "the ledger's address is not understood",
            why=str(error),
            next="set ledger: to a file path, or to postgresql://USER@HOST/DATABASE",
        ) from error


def _make_file(path: Path, busy_timeout_s: float) -> None:
    """Make the whole ledger beside its place, then link it in: nobody meets half a ledger."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.touch(mode=0o600)
            _fill(made, busy_timeout_s)
            publish(made, path)  # or another process was faster; its ledger is as good
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be made",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"ls -ld {path.parent}, or choose another place with ledger: in the config",
        ) from error


def _fill(path: Path, busy_timeout_s: float) -> None:
    database = Database(sqlite_engine(str(path), busy_timeout_s), str(path))
    with database.write() as connection:
        _create_tables(connection, str(uuid.uuid4()))
    database.close()


def _create_tables(connection: Connection, fleet_id: str) -> None:
    metadata.create_all(connection)
    connection.execute(
        insert(meta).values(id=1, schema_version=SCHEMA_VERSION, fleet_id=fleet_id, epoch=1)
    )


def _empty_view(path: Path) -> Database:
    database = Database(memory_engine(), str(path))
    with database.write() as connection:
        _create_tables(connection, fleet_id="")
    database.frozen = _none_yet(path)
    return database


def _none_yet(path: Path) -> LedgerError:
    return LedgerError(
        "there is no ledger yet",
        why=f"{path} does not exist",
        next="vgpumgr host add NAME --address USER@HOST",
    )


def _open_server(url: str, *, create: bool) -> Database:
    parsed = _parse(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    where = parsed.render_as_string(hide_password=True)
    try:
        database = Database(create_engine(parsed, max_overflow=-1), where)
    except (ImportError, ArgumentError) as error:
        raise LedgerError(
            f"the ledger {where} cannot be opened",
            why=str(error),
            next="pip install 'vgpumgr[postgres]'",
        ) from error
    if create:
        with database.write() as connection:
            if not inspect(connection).has_table(meta.name):
                _create_tables(connection, str(uuid.uuid4()))
    return database


def _checked(database: Database) -> Database:
    """The database, if its schema is the one we know."""
    version = _version(database)
    if version == SCHEMA_VERSION:
        return database
    database.close()
    _refuse_newer(version, database.where)
    server = database.engine.dialect.name != "sqlite"
    raise LedgerError(
        f"the ledger {database.where} was made by an older vgpumgr",
        why=f"its schema is version {version}, this vgpumgr needs {SCHEMA_VERSION}",
        next="pg_dump it to a file, then vgpumgr store migrate"
        if server
        else "vgpumgr store migrate   (it keeps a backup beside the ledger)",
    )


def _refuse_newer(version: int, where: str) -> None:
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {where} was made by a newer vgpumgr",
            why=f"its schema is version {version}, this vgpumgr knows {SCHEMA_VERSION}",
            next="upgrade vgpumgr on this machine",
        )


def _version(database: Database) -> int:
    try:
        with database.read() as connection:
            return _schema_version(connection, database.where)
    except LedgerError:
        database.close()
        raise


def _schema_version(connection: Connection, where: str) -> int:
    if connection.dialect.name != "sqlite" or _has_meta(connection):
        version = connection.execute(select(meta.c.schema_version)).scalar()
        if version is not None:
            return int(version)
    raise LedgerError(
        f"{where} is not a vgpumgr ledger",
        why="it is a database of something else, or empty",
        next="set ledger: to another path, or move the file away",
    )


def _has_meta(connection: Connection) -> bool:
    found = connection.exec_driver_sql(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('meta', 'unit')"
    )
    return found.scalar() == 2
