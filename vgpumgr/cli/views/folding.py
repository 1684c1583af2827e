"""Rows that say the same of several VMs, as one: ``desktop-01 … desktop-32``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

# Two alike are still read at a glance.
_FEWEST = 3


def folded(rows: Sequence[Sequence[str]], column: int = 0) -> list[list[str]]:
    """``rows`` with neighbours that differ in ``column`` alone made one, from first to last."""
    found: list[list[str]] = []
    for _, group in groupby(rows, key=lambda row: (*row[:column], *row[column + 1 :])):
        alike = [list(row) for row in group]
        if len(alike) >= _FEWEST:
            first, last = alike[0][column], alike[-1][column]
            alike = [[*alike[0][:column], f"{first} … {last}", *alike[0][column + 1 :]]]
        found += alike
    return found
