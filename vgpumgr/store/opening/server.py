"""Open a ledger that a server keeps, making its tables where it may."""

from __future__ import annotations

from sqlalchemy import inspect

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, server_database
from vgpumgr.store.opening.address import HOW, as_psql, parse
from vgpumgr.store.opening.tables import create_tables, empty_view, new_fleet
from vgpumgr.store.retry import retried
from vgpumgr.store.schema import meta


def open_server(url: str, patience_s: float, *, create: bool) -> Database:
    """The database on a server; without tables, and without ``create``, its lists are empty."""
    database = _connect(url, patience_s)
    if create:
        _make(database)
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
def _make(database: Database) -> None:
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
