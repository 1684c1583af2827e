"""A ledger on a PostgreSQL server: transactions, locks of sessions, notification of listeners."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Transaction, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database.connections import Database, database_errors
from vgpumgr.store.database.faults import OutcomeFault
from vgpumgr.store.database.locks import lock_lost, new_worker

# A connection that is dead is noticed within half a minute, on both sides.
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_LATE_MS = 25_000
# A transaction holds the one write lock: a process that stops in the middle of one loses it.
_STUCK_MS = 60_000
_SETTINGS = """SELECT
    set_config('lock_timeout', %(patience)s, false),
    set_config('idle_in_transaction_session_timeout', %(stuck)s, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    CASE WHEN current_setting('synchronous_commit') = 'off'
         THEN set_config('synchronous_commit', 'on', false) END"""

# One writer at a time, whichever process it is in: what SQLite's BEGIN IMMEDIATE is.
_TURN = text("SELECT pg_advisory_xact_lock(:key), CAST(pg_current_xact_id() AS text)")
WRITE_LOCK = int.from_bytes(b"vgpumgr", "big")
_OUTCOME = text("SELECT pg_xact_status(CAST(:number AS xid8))")


def server_database(url: URL, where: str, patience_s: float) -> Database:
    """PostgreSQL: whoever writes waits ``patience_s`` for the others."""
    engine = server_engine(url, patience_s)
    reads = snapshots(engine)
    return Database(engine, where, reads=reads.begin, writes=lambda: write(engine, patience_s))


def server_engine(url: URL, patience_s: float) -> Engine:
    """Connections that wait ``patience_s`` for a lock and never lose a commit."""
    # It warns of every refused bulk insert on the user's stderr; our error says it already.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    engine = create_engine(
        url,
        max_overflow=-1,
        hide_parameters=True,
        pool_pre_ping=True,  # a server that was restarted left dead ones in the pool
        connect_args={
            "connect_timeout": 10,
            "tcp_user_timeout": _LATE_MS,
            "application_name": "vgpumgr",
            **_KEEPALIVES,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        before, connection.autocommit = connection.autocommit, True
        patience = str(max(1, round(patience_s * 1000)))
        connection.execute(_SETTINGS, {"patience": patience, "stuck": str(_STUCK_MS)})
        connection.autocommit = before

    return engine


def snapshots(engine: Engine) -> Engine:
    """For reading: every query of a transaction sees the same moment."""
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


@contextmanager
def write(engine: Engine, patience_s: float) -> Iterator[Connection]:
    """One write transaction in its turn; nobody else writes until it ends.

    When the connection breaks at COMMIT the server is asked what became of it: OutcomeFault only
    where it does not say within ``patience_s`` seconds.
    """
    with engine.connect() as connection:
        transaction = connection.begin()
        try:
            number = connection.execute(_TURN, {"key": WRITE_LOCK}).one()[1]
            yield connection
        except BaseException:
            transaction.rollback()
            raise
        _commit(transaction, engine, str(number), patience_s)


def _commit(transaction: Transaction, engine: Engine, number: str, patience_s: float) -> None:
    try:
        transaction.commit()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        match _outcome(engine, number, patience_s):
            case "committed":
                return
            case "aborted":
                raise
        raise OutcomeFault(
            "the ledger's server went away during a commit",
            why=f"whether it was committed is not known ({str(error.orig).partition(chr(10))[0]})",
            next="vgpumgr operation list   (when the server is back)",
        ) from error


def _outcome(engine: Engine, number: str, patience_s: float) -> str:
    """``committed``, ``aborted``, or empty: the server does not say."""
    until = time.monotonic() + patience_s
    while True:
        try:
            with engine.connect() as connection:
                status = connection.execute(_OUTCOME, {"number": number}).scalar()
        except SQLAlchemyError:
            status = "in progress"
        if status != "in progress" or time.monotonic() > until:
            return str(status or "").replace("in progress", "")
        time.sleep(0.05)


# A hint alone: who hears none looks in its own time, and what is heard is looked up in the tables.


_CHANNEL = "vgpumgr_work"
_TELL = text("SELECT pg_notify(:channel, '')")
# How long one wait is, when a server that went away is asked again, how often one may be woken.
_BEAT_S, _AGAIN_S, _REST_S = 1.0, 5.0, 0.2


def notify(connection: Connection) -> None:
    """Who listens hears of this transaction when it commits."""
    connection.execute(_TELL, {"channel": _CHANNEL})


class WorkListener:
    """Calls ``heard``, in a thread of its own, after each hint, until :meth:`close`.

    It is called once at the beginning, and after each gap: something may have been told meanwhile.
    """

    def __init__(self, database: Database, heard: Callable[[], None]) -> None:
        self._engine = database.engine
        self._heard = heard
        self._closed = threading.Event()
        if database.is_server:
            threading.Thread(target=self._run, name="hints", daemon=True).start()

    def close(self) -> None:
        """Nothing more is heard; the thread ends in its own time."""
        self._closed.set()

    def _run(self) -> None:
        driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        while not self._closed.is_set():
            with suppress(SQLAlchemyError, driver_error):
                self._listen()
            self._closed.wait(_AGAIN_S)

    def _listen(self) -> None:
        pooled = self._engine.raw_connection()
        driver: Any = pooled.driver_connection
        pooled.detach()  # it is to be closed, not to listen on for somebody else
        with closing(driver):
            driver.autocommit = True
            driver.execute(f"LISTEN {_CHANNEL}")
            told = True
            while not self._closed.is_set():
                if told:
                    self._heard()
                    self._closed.wait(_REST_S)
                told = bool(list(driver.notifies(timeout=_BEAT_S, stop_after=1)))


_CLAIM = text("SELECT pg_try_advisory_lock(:key)")
_RELEASE = text("SELECT pg_advisory_unlock(:key)")
_SESSION = text("SELECT pg_backend_pid()")
_OTHERS = text(
    "SELECT DISTINCT concat_ws(' ', 'session', pid, 'of', usename, 'at', client_addr)"
    " FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND database = datid AND pid <> pg_backend_pid()"
    " AND datname = current_database() AND (classid, objid) <> (:high, :low) ORDER BY 1"
)
_WRITE_LOCK = {"high": WRITE_LOCK >> 32, "low": WRITE_LOCK & 0xFFFFFFFF}


class AdvisoryLocks:
    """Process locks of one fleet: session locks on one connection of their own.

    The server drops them when that connection ends: at once when its process dies, after some
    seconds when its machine or network does. A process that lives on without its connection has
    lost them: it is told before each commit, and hosts refuse it by the epoch once another has
    taken over. Once lost they stay lost: the process opens the ledger anew.
    """

    may_outlive = True

    def __init__(self, engine: Engine, fleet: str, where: str) -> None:
        self.worker = new_worker()
        self._engine = engine
        self._fleet = fleet
        self._where = where
        self._held: set[str] = set()
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._backend = 0
        self._why = ""

    def claim(self, name: str) -> bool:
        """Hold the name until :meth:`release`; False while another live session does."""
        with self._guard:
            self._require()
            if name in self._held:
                return True
            if not self._ask(_CLAIM, name):
                return False
            self._held.add(name)
            return True

    def is_held(self, name: str) -> bool:
        """Does any live session hold the name? Nothing is claimed."""
        with self._guard:
            self._require()
            if name in self._held:
                return True
            free = self._ask(_CLAIM, name)
            if free:
                self._ask(_RELEASE, name)
            return not free

    def held(self) -> frozenset[str]:
        """What this process holds."""
        with self._guard:
            return frozenset(self._held)

    def others(self) -> tuple[str, ...]:
        """The sessions of other processes that hold anything."""
        with self._guard, database_errors(self._where):
            self._require()
            return tuple(self._session().execute(_OTHERS, _WRITE_LOCK).scalars())

    def require(self) -> None:
        """ClaimLost unless the session that claimed is alive; asked of the server itself."""
        with self._guard:
            self._require()

    def release(self, name: str) -> None:
        """Let go of one name; one that is not held is no error."""
        with self._guard:
            if name in self._held and self._connection is not None:
                with suppress(LedgerError):  # a session that ended: require() tells
                    self._ask(_RELEASE, name)
                    self._held.remove(name)

    def close(self) -> None:
        """Let go of all by ending the session."""
        with self._guard:
            self._held.clear()
            self._drop()

    def _require(self) -> None:
        """Once something was claimed, only the session that claimed it will do."""
        if self._connection is not None and (why := self._ended(self._connection)):
            self._drop()
            self._why = f"its session of locks on {self._where} ended: {why}"
        if self._connection is None and self._held:
            raise lock_lost(self._why)

    def _ended(self, session: Connection) -> str:
        """Why the session is not what it was; empty while it is."""
        try:
            same = session.execute(_SESSION).scalar() == self._backend
        except SQLAlchemyError as error:
            return str(getattr(error, "orig", None) or error).partition("\n")[0]
        return "" if same else "a pooler gave it to another"

    def _ask(self, question: Executable, name: str) -> bool:
        with database_errors(self._where):
            return bool(self._session().execute(question, {"key": self._key(name)}).scalar())

    def _session(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()  # the pool must never hand it on, locks and all
            self._backend = int(connection.execute(_SESSION).scalar_one())
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()

    def _key(self, name: str) -> int:
        digest = hashlib.blake2b(f"{self._fleet}\0{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)
