"""Open a ledger: find or make the database, and refuse one that is not ours to use."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from sqlalchemy import Connection, create_engine, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, memory_engine, sqlite_engine
from vgpumgr.store.schema import SCHEMA_VERSION, meta, metadata


def open_database(url: str | Path, *, create: bool, busy_timeout_s: float) -> Database:
    """The database behind a path or URL, its schema checked; LedgerError otherwise."""
    path = _file_path(url)
    if path is None:
        return _open_server(str(url), create=create)
    if not path.exists():
        if not create:
            return _empty_view(path)
        _make_file(path, busy_timeout_s)
    database = Database(sqlite_engine(str(path), busy_timeout_s), str(path))
    return _checked(database)


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
            _link(made, path)
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


def _link(made: Path, path: Path) -> None:
    try:
        os.link(made, path)
    except FileExistsError:
        return  # another process was faster; its ledger is as good
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _create_tables(connection: Connection, fleet_id: str) -> None:
    metadata.create_all(connection)
    connection.execute(
        insert(meta).values(id=1, schema_version=SCHEMA_VERSION, fleet_id=fleet_id, epoch=1)
    )


def _empty_view(path: Path) -> Database:
    database = Database(memory_engine(), str(path))
    with database.write() as connection:
        _create_tables(connection, fleet_id="")
    database.frozen = LedgerError(
        "there is no ledger yet",
        why=f"{path} does not exist",
        next="vgpumgr host add NAME --address USER@HOST",
    )
    return database


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
    return _checked(database)


def _checked(database: Database) -> Database:
    try:
        with database.read() as connection:
            version = _schema_version(connection, database.where)
    except LedgerError:
        database.close()
        raise
    if version > SCHEMA_VERSION:
        database.close()
        raise LedgerError(
            f"the ledger {database.where} was made by a newer vgpumgr",
            why=f"its schema is version {version}, this vgpumgr knows {SCHEMA_VERSION}",
            next="upgrade vgpumgr on this machine",
        )
    return database


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
