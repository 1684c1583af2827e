"""The database of a ledger: connections to SQLite, transactions, and commits that threads share."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import OperationalError
from typing import Any, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from vgpumgr.model.errors import DatabaseFault, LedgerError
from vgpumgr.store.database.faults import TryAgain, explain, locked
from vgpumgr.store.database.ledger_file import same_file
from vgpumgr.store.database.locks import WriteLock, locks_folder
from vgpumgr.store.database.redaction import OWED

_WRITES = "vgpumgr_writes"

Begin = Callable[[], AbstractContextManager[Connection]]


@contextmanager
def database_errors(where: str) -> Iterator[None]:
    """Run database work on ``where``; raises LedgerError for whatever the driver refuses."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(error, where) from error


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


class WriteAheadLog:
    """The log of one ledger file. What a reader stands in the way of is done after a later write,
    or when the last process closes the ledger.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owed = False

    def owes(self, connection: Connection) -> None:
        """Remember what a transaction that is about to commit asks for."""
        self._owed = bool(connection.info.pop(OWED, False)) or self._owed

    def clear(self) -> None:
        """Carry the log into the file and cut it to nothing, where that is owed and can be."""
        if not self._owed:
            return
        with closing(self._engine.raw_connection()) as connection, suppress(OperationalError):
            cursor = connection.cursor()
            [patience_ms] = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute("PRAGMA busy_timeout = 0")
            try:
                busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {patience_ms}")
            self._owed = bool(busy)


P = ParamSpec("P")
T = TypeVar("T")

MOST = 8
_FIRST_S = 0.02
_LONGEST_S = 1.0


def retried(work: Callable[P, T]) -> Callable[P, T]:
    """Call ``work``, which is one transaction, up to MOST times: about 3 s of waiting in all."""

    @wraps(work)
    def again(*args: P.args, **named: P.kwargs) -> T:
        for number in range(MOST - 1):
            try:
                return work(*args, **named)
            except TryAgain:
                # Jittered, so that two who collided do not meet again.
                time.sleep(random.uniform(0.5, 1.0) * min(_FIRST_S * 2**number, _LONGEST_S))  # noqa: S311
        return work(*args, **named)

    return again


Work = TypeVar("Work")

# Bounds the time that the database's write lock is held.
MOST_PER_COMMIT = 512
# How long a commit waits for company, where the one before it had some.
PATIENCE_S = 0.002


class _PendingCommit(Generic[Work]):
    """One caller's work and its end."""

    __slots__ = ("ended", "error", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.error: Exception | None = None
        self.ended = threading.Lock()
        self.ended.acquire()


class GroupWriter(Generic[Work]):
    """Commits the work of many threads together; ``commit`` makes a batch durable or raises.

    A commit costs a disk sync, whatever it holds. While the writer syncs, requests of other
    threads gather; the next transaction takes all of them.

    When a batch fails, its members are committed one by one, so that each caller meets only its
    own error; a database that fails (full, locked, gone) fails all of them at once.
    """

    def __init__(self, commit: Callable[[Sequence[Work]], None]) -> None:
        self._commit = commit
        self._queue: SimpleQueue[_PendingCommit[Work] | None] = SimpleQueue()
        self._shared = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work) -> None:
        """Return when ``work`` is durable, or raise what its commit raised."""
        ticket = _PendingCommit(work)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
                self._thread.start()
            self._queue.put(ticket)
        ticket.ended.acquire()
        if ticket.error is not None:
            raise ticket.error

    def close(self) -> None:
        """Commit what waits and end the thread; a later submit starts a new one."""
        with self._starting:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
                thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            last = self._gather(batch)
            self._write(batch)
            if last:
                return

    def _gather(self, batch: list[_PendingCommit[Work]]) -> bool:
        """Take what waits; True when the writer is asked to end after this batch.

        Where several share commits, a little patience fills the next one: a commit costs more
        than it delays.
        """
        until = time.monotonic() + (PATIENCE_S if self._shared else 0.0)
        while len(batch) < MOST_PER_COMMIT:
            try:
                ticket = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            if ticket is None:
                return True
            batch.append(ticket)
        self._shared = len(batch) > 1
        return False

    def _write(self, batch: Sequence[_PendingCommit[Work]]) -> None:
        error = self._attempt(batch)
        if error is not None and len(batch) > 1 and not isinstance(error, DatabaseFault):
            for ticket in batch:
                self._write([ticket])
            return
        for ticket in batch:
            ticket.error = error
            ticket.ended.release()

    def _attempt(self, batch: Sequence[_PendingCommit[Work]]) -> Exception | None:
        try:
            self._commit([ticket.work for ticket in batch])
        except Exception as error:
            return error  # raised again in its caller
        return None
