"""Errors of rows: rows that cannot be read, and names that are not found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from sqlalchemy import Table

from vgpumgr.model.errors import NotFound
from vgpumgr.store.database.faults import damaged

Reader = TypeVar("Reader", bound=Callable[..., Any])

# What decoding raises of text that nobody wrote.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def decodes(table: Table) -> Callable[[Reader], Reader]:
    """A reader of the table's rows that raises Damaged where a row cannot be read."""

    def of(decode: Reader) -> Reader:
        @wraps(decode)
        def checked(row: Any, *more: Any) -> Any:
            try:
                return decode(row, *more)
            except _UNREADABLE as error:
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
                raise damaged(name_of(table, row), why) from error

        return cast("Reader", checked)

    return of


def name_of(table: Table, row: Any) -> str:
    """``vm 3f1c… (desk)``: the table, the row's key, and its name where it has one."""
    found = getattr(row, "_mapping", {})
    key = [str(found[each.name]) for each in table.primary_key.columns if each.name in found]
    called = [str(found[name]) for name in ("name", "vm") if name in found]
    label = f" ({called[0]})" if called and called[0] not in key else ""
    return " ".join((table.name, *key)) + label


_WORDS = {"vm": "VM", "gpu": "GPU"}


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
