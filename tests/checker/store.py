"""The rows of a ledger, read with plain SQL. JSON columns stay text; nobody's types are used."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, urlsplit

Row = dict[str, Any]
Store = dict[str, list[Row]]

TABLES = ("meta", "host", "gpu", "vm", "allocation", "unit", "layout", "operation", "task", "step")
# Of later schemas: a store that lacks them is still read.
OPTIONAL = ("vm_backup", "audit", "queue", "image", "image_copy", "desktop", "pool_session")
# Large, and of no use to any rule.
_SKIPPED = frozenset({"facts", "supply"})


def read(url: str) -> Store:
    """Every table of the ledger at a file path, or at a ``postgresql+psycopg://`` URL."""
    if url.startswith("postgresql"):
        return _read_postgresql(url)
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.execute("BEGIN")
        found = {
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        }
        return _tables(connection, found)


def _read_postgresql(url: str) -> Store:
    import psycopg

    parts = urlsplit(url)
    options = {key: values[0] for key, values in parse_qs(parts.query).items()}
    arguments = {
        "host": options.get("host") or parts.hostname,
        "port": options.get("port") or parts.port,
        "user": parts.username,
        "password": parts.password,
        "dbname": parts.path.lstrip("/"),
    }
    given = {key: value for key, value in arguments.items() if value}
    with psycopg.connect(**given) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return read_from(connection)


def read_from(connection: Any) -> Store:
    """The same over a session of PostgreSQL that is open already."""
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    found = {row[0] for row in connection.execute(names)}
    return _tables(connection, found)


def _tables(connection: Any, found: set[str]) -> Store:
    return {
        name: _rows(connection.execute(f'SELECT * FROM "{name}"'))
        for name in (*TABLES, *(each for each in OPTIONAL if each in found))
    }


def _rows(cursor: Any) -> list[Row]:
    names: Sequence[str] = [column[0] for column in cursor.description]
    wanted = [number for number, name in enumerate(names) if name not in _SKIPPED]
    return [{names[n]: row[n] for n in wanted} for row in cursor.fetchall()]
