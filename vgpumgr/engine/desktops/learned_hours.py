"""How many users will probably come soon, by when they came on this weekday before. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

WEEKS = 4
"""The weeks whose logins are looked at."""
LOOK_BACK_S = (WEEKS * 7 + 1) * 86_400.0
MOST_LOGINS = 200_000


def expected_logins(logins: Sequence[float], now: float, ahead_s: float, zone: str) -> int:
    """The most logins that any of the last four of this weekday had in the time of day from
    ``now`` on, ``ahead_s`` long. ``logins`` are sorted Unix seconds; the time of day is that of the
    wall clock in ``zone``.
    """
    here = datetime.fromtimestamp(now, ZoneInfo(zone))
    found = 0
    for weeks in range(1, WEEKS + 1):
        begin = (here - timedelta(weeks=weeks)).timestamp()
        count = bisect_left(logins, begin + ahead_s) - bisect_left(logins, begin)
        found = max(found, count)
    return found
