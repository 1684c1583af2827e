"""Open a ledger: find or make the database, and refuse one that is not ours to use."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, file_database, memory_database, server_database
from vgpumgr.store.migrate import Migration, migrate
from vgpumgr.store.publish import publish
from vgpumgr.store.retry import retried
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
        return _checked(_open_server(str(url), busy_timeout_s, create=create))
    if not path.exists():
        if not create:
            return _empty_view(str(path))
        _make_file(path, busy_timeout_s)
    database = file_database(str(path), busy_timeout_s)
    if create:
        _migrate_older(database, path, migrated)
    return _checked(database)


def migrate_ledger(url: str | Path, *, busy_timeout_s: float) -> Migration:
    """Migrate a ledger that is there; a file is backed up beside itself first."""
    path = _file_path(url)
    if path is None:
        database = _open_server(str(url), busy_timeout_s, create=False)
    elif path.exists():
        database = file_database(str(path), busy_timeout_s)
    else:
        raise _none_yet(str(path))
    try:
        refuse_newer(_version(database), database.where)
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
    database = file_database(str(path), busy_timeout_s)
    with database.write() as connection:
        _create_tables(connection, str(uuid.uuid4()))
    database.close()


def _create_tables(connection: Connection, fleet_id: str) -> None:
    metadata.create_all(connection)
    connection.execute(
        insert(meta).values(id=1, schema_version=SCHEMA_VERSION, fleet_id=fleet_id, epoch=1)
    )


def _empty_view(where: str) -> Database:
    database = memory_database(where)
    with database.write() as connection:
        _create_tables(connection, fleet_id="")
    database.frozen = _none_yet(where)
    return database


def _none_yet(where: str) -> LedgerError:
    return LedgerError(
        "there is no ledger yet",
        why=f"{where} does not exist, or is empty",
        next="vgpumgr host add NAME --address USER@HOST",
    )


def _open_server(url: str, busy_timeout_s: float, *, create: bool) -> Database:
    parsed = _parse(url)
    where = _where(parsed)
    if parsed.get_backend_name() != "postgresql":
        raise LedgerError(
            f"a ledger cannot be kept by {parsed.get_backend_name()}",
            why="it is kept by SQLite or by PostgreSQL",
            next="set ledger: to a file path, or to postgresql://USER@HOST/DATABASE",
        )
    try:
        database = server_database(
            parsed.set(drivername="postgresql+psycopg"), where, busy_timeout_s
        )
    except ImportError as error:
        raise LedgerError(
            f"the ledger {where} cannot be opened",
            why=str(error),
            next="pip install 'vgpumgr[postgres]'",
        ) from error
    if create:
        _make_on_server(database)
        return database
    return database if _has_tables(database) else _none_on_server(database)


def _has_tables(database: Database) -> bool:
    with database.read() as connection:
        return bool(inspect(connection).get_table_names())


def _none_on_server(database: Database) -> Database:
    """Lists are empty, as they are where a ledger file is missing."""
    database.close()
    return _empty_view(database.where)


def _where(url: URL) -> str:
    """The address as psql takes it, without any password."""
    plain = url.set(drivername="postgresql", password=None).difference_update_query(["password"])
    return plain.render_as_string()


@retried
def _make_on_server(database: Database) -> None:
    """Make the tables unless they are there; of two processes one does, the other finds them."""
    try:
        with database.read() as connection:
            there = inspect(connection).has_table(meta.name)
        if not there:
            with database.write() as connection:
                if not inspect(connection).has_table(meta.name):
                    _create_tables(connection, str(uuid.uuid4()))
    except LedgerError:
        database.close()
        raise


def _checked(database: Database) -> Database:
    """The database, if its schema is the one we know."""
    version = _version(database)
    if version == SCHEMA_VERSION:
        return database
    database.close()
    refuse_newer(version, database.where)
    server = database.engine.dialect.name != "sqlite"
    raise LedgerError(
        f"the ledger {database.where} was made by an older vgpumgr",
        why=f"its schema is version {version}, this vgpumgr needs {SCHEMA_VERSION}",
        next="pg_dump it to a file, then vgpumgr store migrate"
        if server
        else "vgpumgr store migrate   (it keeps a backup beside the ledger)",
    )


def refuse_newer(version: int, where: str) -> None:
    """LedgerError for a schema that we do not know."""
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {where} was made by a newer vgpumgr",
            why=f"its schema is version {version}, this vgpumgr knows {SCHEMA_VERSION}",
            next="upgrade vgpumgr on this machine",
        )


def _version(database: Database) -> int:
    try:
        with database.read() as connection:
            return schema_version(connection, database.where)
    except LedgerError:
        database.close()
        raise


def schema_version(connection: Connection, where: str) -> int:
    """The version of its schema; LedgerError for what is no ledger."""
    if _has_meta(connection):
        version = connection.execute(select(meta.c.schema_version)).scalar()
        if version is not None:
            return int(version)
    raise LedgerError(
        f"{where} is not a vgpumgr ledger",
        why="it is a database of something else, or empty",
        next="set ledger: to another path, or move the file away",
    )


def _has_meta(connection: Connection) -> bool:
    found = inspect(connection)
    return found.has_table("meta") and found.has_table("unit")
