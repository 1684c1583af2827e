"""Make a ledger's tables, and read which version they are."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, insert, inspect, select

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database, memory_database
from vgpumgr.store.schema import SCHEMA_VERSION, meta, metadata


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


def checked(database: Database) -> Database:
    """The database, if its schema is the one we know; closed, and LedgerError, otherwise."""
    found = version(database)
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
