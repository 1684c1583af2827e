"""One database of a ledger: connections to SQLite or PostgreSQL, reads and writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import postgresql
from vgpumgr.store.database.faults import database_errors, locked
from vgpumgr.store.database.ledger_file import same_file
from vgpumgr.store.database.process_locks import locks_folder
from vgpumgr.store.database.redaction import WriteAheadLog
from vgpumgr.store.database.write_lock import WriteLock

_WRITES = "vgpumgr_writes"

Begin = Callable[[], AbstractContextManager[Connection]]


class Database:
    """An engine with two doors: :meth:`read` sees one snapshot, :meth:`write` is durable.

    ``where`` names the file or server in messages. ``frozen`` is why nothing may be written,
    ``absent`` says that there is no ledger there at all.
    """

    def __init__(
        self,
        engine: Engine,
        where: str,
        *,
        reads: Begin,
        writes: Begin,
        frozen: LedgerError | None = None,
    ) -> None:
        self.engine = engine
        self.where = where
        self.frozen = frozen
        self.absent = False
        self._reads = reads
        self._writes = writes
        # One writer at a time: threads wait in line here, which is quicker than the database's.
        self._line = threading.Lock()

    @property
    def is_server(self) -> bool:
        """Does a server keep it? Otherwise it is a file, or in memory."""
        return self.engine.dialect.name != "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One read transaction; LedgerError when the database refuses."""
        with database_errors(self.where), self._reads() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction, on disk when the block ends; an exception leaves nothing."""
        if self.frozen is not None:
            raise self.frozen
        with self._line, database_errors(self.where), self._writes() as connection:
            yield connection

    def close(self) -> None:
        """Give back every connection."""
        with database_errors(self.where):
            self.engine.dispose()


def server_database(url: URL, where: str, patience_s: float) -> Database:
    """PostgreSQL: whoever writes waits ``patience_s`` for the others."""
    engine = postgresql.server_engine(url, patience_s)
    reads = postgresql.snapshots(engine)
    return Database(
        engine, where, reads=reads.begin, writes=lambda: postgresql.write(engine, patience_s)
    )


def file_database(path: str, busy_timeout_s: float) -> Database:
    """SQLite on a file: WAL, every commit synced, foreign keys checked; writers in a line."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        connect_args={"timeout": busy_timeout_s},
        max_overflow=-1,
        hide_parameters=True,
    )
    line = WriteLock(locks_folder(Path(path)))
    reads, writes = _sqlite(engine)
    require_same = same_file(Path(path))
    log = WriteAheadLog(engine)

    @contextmanager
    def reads_of_it() -> Iterator[Connection]:
        require_same()
        with reads() as connection:
            yield connection

    @contextmanager
    def writes_in_line() -> Iterator[Connection]:
        with line.turn(busy_timeout_s) as is_ours:
            if not is_ours:
                raise locked(path)
            require_same()
            with writes() as connection:
                yield connection
                log.owes(connection)
            log.clear()

    return Database(engine, path, reads=reads_of_it, writes=writes_in_line)


def memory_database(where: str) -> Database:
    """An SQLite database that lives in this process only; its threads share one connection."""
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    reads, writes = _sqlite(engine)
    lock = threading.Lock()

    def one_at_a_time(begin: Begin) -> Begin:
        @contextmanager
        def turn() -> Iterator[Connection]:
            with lock, begin() as connection:
                yield connection

        return turn

    return Database(engine, where, reads=one_at_a_time(reads), writes=one_at_a_time(writes))


def _sqlite(engine: Engine) -> tuple[Begin, Begin]:
    """How reads and writes begin. BEGIN is taken from the driver: a write must hold the lock
    before its first read.
    """

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.execute("PRAGMA secure_delete = ON").close()
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine.begin, engine.execution_options(**{_WRITES: True}).begin
