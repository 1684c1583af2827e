"""What a database refuses, in words: every driver error becomes a LedgerError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from vgpumgr.model.errors import Damaged, DatabaseFault, LedgerError
from vgpumgr.store.server_faults import AGAIN, Words, server_words

RESTORE = "vgpumgr store restore BACKUP"

_LOCKED = (
    "the ledger is locked by another process",
    "it held its write lock for longer than the busy timeout",
    "fuser -v {where}",
)

# SQLite's texts → what happened, why, what to type. {where} is the file.
_KNOWN: tuple[tuple[str, Words], ...] = (
    ("disk is full", ("the ledger's disk is full", "nothing of this change was committed",
     "df -h {where}")),
    ("disk i/o error", ("the ledger's disk refused a read or write",
     "the file system is full, over quota or failing; nothing of this change was committed",
     "df -h {where}; dmesg")),
    ("readonly database", ("the ledger is read-only",
     "this user may not write {where}, or nobody may on its file system",
     "ls -l {where}; findmnt -T {where}")),
    ("is locked", _LOCKED),
    ("not a database", ("the ledger is not a database",
     "{where} is damaged or belongs to another program", RESTORE)),
    ("could not decode to utf-8", ("damaged: text in the ledger", "{where} holds invalid text",
     RESTORE)),
    ("malformed", ("the ledger is damaged", "SQLite calls {where} malformed",
     RESTORE)),
    ("unable to open", ("the ledger cannot be opened",
     "{where}, its folder or its file system is not readable and writable for this user",
     "ls -ld {where}; findmnt -T {where}")),
)  # fmt: skip


def damaged(what: str, why: str) -> Damaged:
    """The error of a row that cannot be read."""
    return Damaged(f"damaged: {what} in the ledger", why=why, next=RESTORE)


class Unwritable(DatabaseFault):
    """The file, its folder or its disk does not take what has to be written."""


class TryAgain(DatabaseFault):
    """Nothing was kept, and the same transaction may go through the next time."""


class OutcomeFault(DatabaseFault):
    """The connection broke at COMMIT: whether it was committed is not known."""

    code = "ledger.outcome-unknown"


_UNWRITABLE = frozenset(
    {
        "the ledger's disk is full",
        "the ledger's disk refused a read or write",
        "the ledger is read-only",
        "the ledger cannot be opened",
    }
)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Run database work on ``where``; raises LedgerError for whatever the driver refuses."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(error, where) from error


def locked(where: str) -> DatabaseFault:
    """The error of who waited for the write lock of a file for too long."""
    message, why, next_ = _LOCKED
    return DatabaseFault(message, why=why, next=next_.format(where=where))


def explain(error: SQLAlchemyError, where: str) -> LedgerError:
    """The LedgerError for a driver's error."""
    cause = getattr(error, "orig", None) or error
    text = str(cause)
    state = str(getattr(cause, "sqlstate", None) or "")
    first = text.partition("\n")[0]
    words = _file_words(text) if where.startswith("/") else server_words(state, text)
    kind = DatabaseFault if isinstance(error, OperationalError) else LedgerError
    if words is None:
        look = "ls -l" if where.startswith("/") else "psql"
        return kind("the ledger cannot be used", why=first, next=f"{look} {where}")
    message, why, next_ = words
    if message in AGAIN:
        kind = TryAgain
    elif next_ == RESTORE:
        kind = Damaged
    elif message in _UNWRITABLE:
        kind = Unwritable
    return kind(message, why=why.format(where=where), next=next_.format(where=where))


def _file_words(text: str) -> Words | None:
    return next((words for part, words in _KNOWN if part in text.lower()), None)
