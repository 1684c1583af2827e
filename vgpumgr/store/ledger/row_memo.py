"""Values of rows that were read before: for a row that is as it was, the very same value.

What was made of it then is used once more. A value follows from its columns alone, so it is
never out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from sys import intern
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST_ROWS = 1 << 18
"""Rows of a table that are remembered: the GPUs of some 30,000 hosts."""
MOST_TEXTS = 1 << 12
"""Texts that are remembered with what they say; a fleet has some for each kind of host."""
_SPARE = 1024
_LONG = 64


class RowMemo(Generic[T]):
    """``make`` is called with a row's columns; its last value for each key is kept."""

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._last: dict[Hashable, tuple[tuple[Any, ...], T]] = {}

    def __len__(self) -> int:
        return len(self._last)

    def of(self, key: Hashable, *columns: Any) -> T:
        """The value of the row with that key; raises what ``make`` raises, and keeps nothing."""
        last = self._last.get(key)
        if last is not None and last[0] == columns:
            return last[1]
        self._forget_beyond(MOST_ROWS)
        columns = tuple(map(_shared, columns))
        made = self._make(*columns)
        self._last[key] = columns, made
        return made

    def listed(self, rows: int) -> None:
        """The table has so many rows now: where far more are remembered, they are forgotten."""
        self._forget_beyond(2 * rows + _SPARE)

    def _forget_beyond(self, most: int) -> None:
        if len(self._last) > most:
            self._last = {}


def _shared(column: Any) -> Any:
    """Alike rows share their texts: those of a thousand GPUs are a few."""
    return intern(column) if type(column) is str and len(column) > _LONG else column
