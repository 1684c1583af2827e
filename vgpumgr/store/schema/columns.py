"""The kinds of column that the tables are made of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Float, Integer, MetaData, Text, TypeDecorator
from sqlalchemy.engine import Dialect
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


def integer(name: str) -> Column[int]:
    """A number that is always there."""
    return Column(name, Number(name), nullable=False)


def time(name: str) -> Column[float]:
    """Unix seconds."""
    return Column(name, Moment(name), nullable=False)


def end(name: str) -> Column[float | None]:
    """Unix seconds; NULL while the row is open."""
    return Column(name, Moment(name))
