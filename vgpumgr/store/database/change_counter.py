"""Whether anything was committed to a ledger since: a number that each commit changes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from vgpumgr.store.database.faults import explain


class ChangeCounter:
    """Compares equal as long as nothing was committed, by any process. Safe to share between
    threads.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self._where = where
        self._lock = threading.Lock()
        self._connection: Any = None
        self._file: tuple[int, int] = (0, 0)

    def version(self) -> Hashable:
        """The number; LedgerError where the database refuses."""
        if self._engine.dialect.name != "sqlite":
            return self._of_server()
        with self._lock:
            return self._of_file()

    def _of_file(self) -> Hashable:
        """SQLite counts what other connections commit: this one commits nothing."""
        path = self._engine.url.database or ""
        try:
            status = Path(path).stat()
            file = (status.st_dev, status.st_ino)
            if self._connection is None or file != self._file:
                self._close()
                self._connection = sqlite3.connect(path, check_same_thread=False)
                self._file = file
            (number,) = self._connection.execute("PRAGMA data_version").fetchone()
        except (OSError, sqlite3.Error):
            self._close()
            return object()  # equal to no other: what is read next says what is wrong
        return (*file, number)

    def _of_server(self) -> Hashable:
        """Where the server's log ends; others' work there changes it, too."""
        try:
            with self._engine.connect() as connection:
                where = text("SELECT pg_current_wal_insert_lsn()::text")
                return str(connection.execute(where).scalar_one())
        except SQLAlchemyError as error:
            raise explain(error, self._where) from error

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()
