"""Errors of the ledger in plain words: SQLite's by their text, PostgreSQL's by SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from vgpumgr.model.errors import Damaged, DatabaseFault, LedgerError, NotFound

Words = tuple[str, str, str]
"""What happened, why, what to type; ``{where}`` is the server's address."""

_MOVED = "the ledger changed during this operation"
_STARTING = "the ledger's server is starting or stopping"
AGAIN = frozenset({_MOVED, _STARTING})
"""What happened, where the same transaction may go through the next time."""

_NOTHING_KEPT = "nothing of this change was committed"
_GONE = (
    "the ledger's server ended the connection",
    "it was stopped, or somebody ended the session; " + _NOTHING_KEPT,
    "pg_isready -d {where}",
)
_REFUSED = (
    "the ledger's server denies access",
    "the user, its password or pg_hba.conf",
    "put HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass (mode 0600); psql {where}",
)
_READ_ONLY = (
    "the ledger is read-only",
    "{where} is a standby, or set to read only",
    "set ledger: to the primary server",
)

_BY_STATE: dict[str, Words] = {
    "40001": (_MOVED, "serialization failure", "the same command again"),
    "40P01": (_MOVED, "deadlock with another session", "the same command again"),
    "53100": ("the ledger's disk is full", "on the server; " + _NOTHING_KEPT,
              "df -h on the server"),
    "53200": ("the ledger's server is out of memory", _NOTHING_KEPT, "free -m on the server"),
    "53300": ("the ledger's server takes no more connections", "its max_connections are in use",
              "psql {where} -c 'select pid, application_name, state from pg_stat_activity'"),
    "55P03": ("the ledger is locked by another process",
              "it held the write lock for longer than the busy timeout",
              "psql {where} -c 'select pid, application_name, state from pg_stat_activity'"),
    "25P03": ("the ledger's server ended a transaction that stood still", _NOTHING_KEPT,
              "the same command again"),
    "25006": _READ_ONLY,
    "42501": ("the ledger may not be used", "the server's user lacks a right on its tables",
              "psql {where} -c '\\dp'"),
    "57P01": _GONE, "57P02": _GONE, "08006": _GONE, "08003": _GONE,
    "57P03": (_STARTING, "it takes no sessions just now", "pg_isready -d {where}"),
    "28P01": _REFUSED, "28000": _REFUSED,
}  # fmt: skip

_BY_TEXT: tuple[tuple[str, Words], ...] = (
    ("starting up", _BY_STATE["57P03"]),
    ("shutting down", _BY_STATE["57P03"]),
    ("recovery mode", _BY_STATE["57P03"]),
    ("not yet accepting connections", _BY_STATE["57P03"]),
    ("authentication failed", _REFUSED),
    ("no password supplied", _REFUSED),
    ("no pg_hba.conf entry", _REFUSED),
    ("too many clients", _BY_STATE["53300"]),
    ("server closed the connection", _GONE),
    ("connection is closed", _GONE),
    ("connection is lost", _GONE),
    ("terminating connection", _GONE),
)


def server_words(state: str, text: str) -> Words | None:
    """The words for an error; None where it is unknown."""
    if state in _BY_STATE:
        return _BY_STATE[state]
    for part, words in _BY_TEXT:
        if part in text:
            return words
    opening = next((each for each in _NOT_OPENED if text.startswith(each)), "")
    return _unreachable(text.removeprefix(opening)) if opening else None


_NOT_OPENED = ("connection failed: ", "connection is bad: ", "connection timeout")


def _unreachable(text: str) -> Words:
    """The first reason only: libpq tries every address of a name, and says each."""
    why = _plain(text.partition("\n")[0] or "it does not answer")
    if "database" in why and "does not exist" in why:
        return ("the ledger's database does not exist", why, "createdb, see docs/store.md")
    return ("the ledger's server cannot be reached", why, "pg_isready -d {where}")


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


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


_WORDS = {"vm": "VM", "gpu": "GPU", "power": "power budget"}


def _word(noun: str) -> str:
    return _WORDS.get(noun, noun)


def not_found(noun: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for a name that is not there; ``noun`` is the CLI's word for it."""
    message = f"{name} is not in the queue" if noun == "queue" else f"no {_word(noun)} {name}"
    near = get_close_matches(name, list(known), n=3)
    if not near:
        return NotFound(message, next=f"vgpumgr {noun} list")
    return NotFound(
        message,
        why=f"did you mean {' or '.join(near)}?",
        next=f"vgpumgr {noun} show {near[0]}",
    )
