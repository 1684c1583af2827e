"""The risk that a GPU fails within 48 hours, by its own errors so far: a table, no prophecy.

Rates are of NVIDIA K20X GPUs of the Titan supercomputer; they rank GPUs of today, and their size is
not to be taken for theirs. Nothing is drained by it: docs/risk.md.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HORIZON_S = 2 * 86_400.0
SINCE_DAYS = (2.0, 7.0, 14.0, 30.0, 90.0, 180.0)
"""Ends of the spans since the last error; longer ones are a span of their own."""
AGE_DAYS = (180.0, 365.0, 730.0, 1095.0, 1460.0)
"""The same of the age of a GPU that has had none."""
MOST_ERRORS = 3
_DATA = Path(__file__).parent / "data" / "failure_risk.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardTable:
    """The share of windows of 48 hours with a failure: ``after`` by errors so far (1, 2, 3 or more)
    and the span since the last, ``without`` by the span of a GPU's age that has had none.
    ``backtested``: on later years its alarms were better than "error in the last 7 days"; only then
    may anything be drained by it.
    """

    after: tuple[tuple[float, ...], ...]
    without: tuple[float, ...]
    backtested: bool = False

    def risk(self, errors: int, since_days: float, age_days: float) -> float:
        """From 0 to 1."""
        if errors <= 0:
            return self.without[bisect_right(AGE_DAYS, age_days)]
        row = self.after[min(errors, MOST_ERRORS) - 1]
        return row[bisect_right(SINCE_DAYS, since_days)]


@cache
def shipped_table() -> HazardTable:
    """The rates that come with us; ``vgpumgr/health/data`` says of what they were made."""
    data: dict[str, Any] = json.loads(_DATA.read_text())
    return HazardTable(
        after=tuple(tuple(row) for row in data["after"]),
        without=tuple(data["without"]),
        backtested=bool(data["beats_error_in_the_last_7_days"]),
    )


def risk_of(table: HazardTable, errors: Sequence[float], begins: float, now: float) -> float:
    """The risk of a GPU with errors at these times (Unix seconds), in the fleet since ``begins``.

    Errors of one window are one: an event storm is no history.
    """
    told = distinct(each for each in errors if each <= now)
    since = (now - told[-1]) / 86_400.0 if told else math.inf
    return table.risk(len(told), since, max(0.0, now - begins) / 86_400.0)


def distinct(errors: Iterable[float]) -> list[float]:
    """The last error of each storm: of those that are within a horizon of the one before."""
    found: list[float] = []
    for each in sorted(errors):
        if found and each - found[-1] < HORIZON_S:
            found[-1] = each
        else:
            found.append(each)
    return found
