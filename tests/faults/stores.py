"""Ledgers that can be copied: the start of a scenario, and what a killed process left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import sqlalchemy

from tests import pgserver
from tests.checker import store as ledger_rows
from vgpumgr.store.schema import metadata

_GONE_S = 10.0
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'"
_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


class Stores(Protocol):
    """One kind of store; a lane uses one ledger at a time."""

    name: str

    def fresh(self) -> str:
        """The URL of an empty ledger."""

    def save(self, url: str) -> Any:
        """What a ledger holds, once nobody has it open any more."""

    def load(self, saved: Any) -> str:
        """The URL of a ledger that holds it."""

    def rows(self, url: str) -> ledger_rows.Store:
        """What the checker reads of it."""


class SqliteStores:
    """Files in a folder; also what a killed process left unmerged beside the file."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        folder.mkdir()

    def fresh(self) -> str:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        return str(folder / "ledger.sqlite")

    def save(self, url: str) -> dict[str, bytes]:
        files = [Path(url), Path(f"{url}-wal")]
        return {path.name: path.read_bytes() for path in files if path.exists()}

    def load(self, saved: dict[str, bytes]) -> str:
        for old in self._folder.iterdir():
            shutil.rmtree(old)
        return self._written(saved)

    def rows(self, url: str) -> ledger_rows.Store:
        """Of a copy: whoever opens the file itself merges what a killed process left beside it."""
        copy = self._written(self.save(url))
        found = ledger_rows.read(copy)
        shutil.rmtree(Path(copy).parent)
        return found

    def _written(self, saved: dict[str, bytes]) -> str:
        url = self.fresh()
        for name, data in saved.items():
            Path(url).with_name(name).write_bytes(data)
        return url


@dataclass(frozen=True, slots=True)
class PgSaved:
    """Rows as COPY writes them, by table, and where each sequence stands."""

    rows: dict[str, bytes]
    sequences: dict[str, tuple[int, bool]]


class PgStores:
    """One database of a server, filled anew each time: quicker than making databases."""

    name = "postgresql"

    def __init__(self, server: pgserver.PgServer) -> None:
        self._server = server
        self._url = server.database()
        self._tables: tuple[str, ...] = ()
        self._loads = 0
        self._connection: Any = None

    def fresh(self) -> str:
        connection = self._connected()
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        return self._url

    def save(self, _: str) -> PgSaved:
        connection = self._connected()
        tables = connection.execute(_TABLES).fetchall()
        sequences = connection.execute(_SEQUENCES).fetchall()
        self._tables = tuple(name for (name,) in tables)
        return PgSaved(
            {name: _copied(connection, name) for name in self._tables},
            {
                name: connection.execute(f'SELECT last_value, is_called FROM "{name}"').fetchone()
                for (name,) in sequences
            },
        )

    def load(self, saved: PgSaved) -> str:
        connection = self._connected()
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute("; ".join(f'DELETE FROM "{name}"' for name in saved.rows))
            for name, rows in saved.rows.items():
                if rows:
                    with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
                        copy.write(rows)
            for name, (value, called) in saved.sequences.items():
                connection.execute("SELECT setval(%s, %s, %s)", (f'"{name}"', value, called))
        self._loads += 1
        if self._loads % 100 == 0:
            for name in self._tables:
                connection.execute(f'VACUUM "{name}"')
        return self._url

    def rows(self, _: str) -> ledger_rows.Store:
        return ledger_rows.read_from(self._connected())

    def _connected(self) -> Any:
        """Our connection, once no other is left: killed processes' sessions end by themselves."""
        import psycopg

        if self._connection is None:
            name = urlsplit(self._url).path.lstrip("/")
            self._connection = psycopg.connect(
                host=str(self._server.folder), user=pgserver.USER, dbname=name, autocommit=True
            )
        deadline = time.monotonic() + _GONE_S
        while self._connection.execute(_OTHERS).fetchone()[0]:
            if time.monotonic() > deadline:
                raise RuntimeError("a session of a process that is gone is still there")
            time.sleep(0.001)
        return self._connection


def _copied(connection: Any, table: str) -> bytes:
    with connection.cursor().copy(f'COPY "{table}" TO STDOUT') as copy:
        return b"".join(bytes(piece) for piece in copy)


Rows = dict[str, list[dict[str, Any]]]


def rows(url: str) -> Rows:
    """Every row of a ledger that nobody has open, by table."""
    with _opened(url) as connection:
        return {
            table.name: [dict(row._mapping) for row in connection.execute(table.select())]
            for table in metadata.sorted_tables
        }


def replace_rows(url: str, wanted: Rows) -> None:
    """Put these in the place of all that it has."""
    with _opened(url) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for table in metadata.sorted_tables:
            if wanted[table.name]:
                connection.execute(table.insert(), wanted[table.name])


@contextmanager
def _opened(url: str) -> Iterator[sqlalchemy.Connection]:
    engine = sqlalchemy.create_engine(url if "://" in url else f"sqlite:///{url}")
    with engine.begin() as connection:
        yield connection
    engine.dispose()
