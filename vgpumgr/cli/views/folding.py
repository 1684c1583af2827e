"""Rows that say the same of several VMs, as one: ``desktop-01 … desktop-32``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from vgpumgr.model.words import spanned

# Two alike are still read at a glance.
_FEWEST = 3


def folded(rows: Sequence[Sequence[str]], column: int = 0) -> list[list[str]]:
    """``rows`` with neighbours that differ in ``column`` alone made one."""
    found: list[list[str]] = []
    for _, group in groupby(rows, key=lambda row: (*row[:column], *row[column + 1 :])):
        alike = [list(row) for row in group]
        if len(alike) >= _FEWEST:
            names = spanned([row[column] for row in alike])
            alike = [[*alike[0][:column], names, *alike[0][column + 1 :]]]
        found += alike
    return found
