"""Process locks on PostgreSQL: session advisory locks on one connection of their own.

The server drops them when that connection ends: at once when its process dies, after
some seconds when its machine or network does. A process that lives on without its
connection has lost them: it is told before each commit, and hosts refuse it by the
epoch once another has taken over.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress

from sqlalchemy import Connection, Engine, Executable, text
from sqlalchemy.exc import SQLAlchemyError

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database.faults import database_errors
from vgpumgr.store.database.postgresql import WRITE_LOCK
from vgpumgr.store.database.process_locks import lock_lost, new_worker

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
    """Session locks of one fleet. Once lost they stay lost: the process opens the ledger anew."""

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
