"""What a database refuses, in words: every driver error becomes a LedgerError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from vgpumgr.model.errors import LedgerError

# SQLite's texts → what happened, why, what to type. {where} is the file or the server.
_KNOWN = (
    ("disk is full", "the ledger's disk is full", "nothing of this change was kept",
     "df -h {where}"),
    ("disk i/o error", "the ledger's disk refused a read or write",
     "the file system is full, over quota or failing; nothing of this change was kept",
     "df -h {where}; dmesg"),
    ("readonly database", "the ledger is read-only", "this user may not write {where}",
     "ls -l {where}"),
    ("is locked", "the ledger is locked by another process",
     "it held its write lock for longer than the busy timeout", "fuser -v {where}"),
    ("not a database", "the ledger is not a database",
     "{where} is damaged or belongs to another program",
     "mv {where} {where}.broken, then put a backup in its place"),
    ("malformed", "the ledger is damaged", "SQLite calls {where} malformed",
     "mv {where} {where}.broken, then put a backup in its place"),
    ("unable to open", "the ledger cannot be opened",
     "{where} or its folder is not readable and writable for this user", "ls -ld {where}"),
)  # fmt: skip


class DatabaseFault(LedgerError):
    """The database itself fails (full, locked, gone), whatever is asked of it."""


@contextmanager
def told(where: str) -> Iterator[None]:
    """Run database work on ``where``; raises LedgerError for whatever the driver refuses."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(error, where) from error


def explain(error: SQLAlchemyError, where: str) -> LedgerError:
    """The LedgerError for a driver's error."""
    kind = DatabaseFault if isinstance(error, OperationalError) else LedgerError
    cause = str(getattr(error, "orig", None) or error)
    for text, message, why, next_ in _KNOWN:
        if text in cause.lower():
            return kind(message, why=why.format(where=where), next=next_.format(where=where))
    look = "ls -l" if where.startswith("/") else "psql"
    return kind("the ledger cannot be used", why=cause.splitlines()[0], next=f"{look} {where}")
