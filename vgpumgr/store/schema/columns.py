"""The kinds of column that the tables are made of."""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, MetaData, Text

metadata = MetaData()


def text(name: str, *, server_default: str | None = None, index: bool = False) -> Column[str]:
    """Text that is always there."""
    return Column(name, Text, nullable=False, server_default=server_default, index=index)


def optional(name: str) -> Column[str | None]:
    """Text, or NULL."""
    return Column(name, Text)


def integer(name: str) -> Column[int]:
    """A number that is always there."""
    return Column(name, Integer, nullable=False)


def time(name: str) -> Column[float]:
    """Unix seconds."""
    return Column(name, Float(53), nullable=False)


def end(name: str) -> Column[float | None]:
    """Unix seconds; NULL while the row is open."""
    return Column(name, Float(53))
