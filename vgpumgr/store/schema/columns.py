"""The kinds of column that the tables are made of, and how their rows are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    event,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeEngine

from vgpumgr.store.database.faults import damaged

metadata = MetaData()


class Number(TypeDecorator[Any]):
    """Numbers only: SQLite gives back whatever somebody put into the column."""

    impl = Integer
    cache_ok = True

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column

    def process_result_value(self, value: Any, dialect: object) -> Any:
        """The number; Damaged for what is none."""
        if value is None or isinstance(value, int | float):
            return value
        raise damaged(f"a row's {self.column}", f"it is {value!r:.40}, which is not a number")


class Moment(Number):
    """Unix seconds."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """A double on every database."""
        return dialect.type_descriptor(Float(53))


def text(name: str, *, server_default: str | None = None, index: bool = False) -> Column[str]:
    """Text that is always there."""
    return Column(name, Text, nullable=False, server_default=server_default, index=index)


def optional(name: str) -> Column[str | None]:
    """Text, or NULL."""
    return Column(name, Text)


def integer(name: str, *, server_default: str | None = None) -> Column[int]:
    """A number that is always there."""
    return Column(name, Number(name), nullable=False, server_default=server_default)


def time(name: str) -> Column[float]:
    """Unix seconds."""
    return Column(name, Moment(name), nullable=False)


def end(name: str) -> Column[float | None]:
    """Unix seconds; NULL while the row is open."""
    return Column(name, Moment(name))


def of_tenant(name: str = "tenant") -> Column[str]:
    """Whose the row is: what its spec says, or '' where it belongs to no tenant."""
    return text(name, server_default="", index=True)


ALL_ROWS: ColumnElement[bool] = true()
"""The condition that chooses every row."""

_OPEN = "open"


def index_of_open(name: str, *columns: Column[Any], end: Column[Any], unique: bool = True) -> Index:
    """An index of the rows that ``end`` has not closed."""
    return Index(name, *columns, unique=unique, info={_OPEN: end.is_(None)})


@event.listens_for(metadata, "before_create")
def _add_conditions(_: MetaData, connection: Connection, **__: object) -> None:
    """Only when tables are made: naming a dialect loads it, and each process needs but one."""
    for table in metadata.tables.values():
        for index in table.indexes:
            if _OPEN in index.info:
                index.dialect_options[connection.dialect.name]["where"] = index.info[_OPEN]


Reader = TypeVar("Reader", bound=Callable[..., Any])

# What decoding raises of text that nobody wrote.
UNREADABLE = (
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
            except UNREADABLE as error:
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
