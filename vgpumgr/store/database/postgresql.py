"""Connections to PostgreSQL: their settings, and writes one at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Transaction, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from vgpumgr.store.database.faults import OutcomeFault

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
