"""Notification of other processes about new work, over PostgreSQL's LISTEN and NOTIFY.

A hint alone: a process that hears none looks in its own time, and work is looked up in
the tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from vgpumgr.store.database.connections import Database

# A hint alone: who hears none looks in its own time, and what is heard is looked up in the tables.


_CHANNEL = "vgpumgr_work"
_TELL = text("SELECT pg_notify(:channel, '')")
_IS_SERVER = "postgresql"
# How long one wait is, when a server that went away is asked again, how often one may be woken.
_BEAT_S, _AGAIN_S, _REST_S = 1.0, 5.0, 0.2


def notify(connection: Connection) -> None:
    """Who listens hears of this transaction when it commits; nobody does on SQLite."""
    if connection.dialect.name == _IS_SERVER:
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
