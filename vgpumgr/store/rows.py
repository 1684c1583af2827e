"""Rows that cannot be read: which one it is, why, and what to type."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sqlalchemy import Table

from vgpumgr.store.faults import damaged

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
