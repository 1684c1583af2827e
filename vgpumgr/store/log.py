"""SQLite's write-ahead log, emptied after a transaction whose past is not to stay on disk.

In the file itself deleted content is overwritten (``secure_delete``). The log keeps what was
written before until it is begun anew.
"""

from __future__ import annotations

from contextlib import closing, suppress
from sqlite3 import OperationalError

from sqlalchemy import Connection, Engine

from vgpumgr.store.redaction import OWED


class Log:
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
