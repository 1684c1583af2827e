"""The schedule of a pool: hours of days by the wall clock of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from vgpumgr.model.holiday_calendar import Holidays

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MIN = 1440
WEEK_MIN = 7 * DAY_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekHours:
    """On these ``days`` (0 is Monday) from minute ``start`` to before minute ``end`` of the day.

    ``end`` at or before ``start`` is the next day's. Both are wall-clock time: 8:30 stays 8:30 when
    summer time comes, and an hour that comes twice is held twice.
    """

    days: tuple[int, ...]
    start: int
    end: int

    def holds(self, minute: int) -> bool:
        """Whether the minute of the week lies in it."""
        return any((minute - begin) % WEEK_MIN < length for begin, length in self.spans())

    def spans(self) -> Iterator[tuple[int, int]]:
        """Where each day's part begins in the week, and its length, in minutes."""
        length = (self.end - self.start) % DAY_MIN or DAY_MIN
        return ((day * DAY_MIN + self.start, length) for day in self.days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(WeekHours):
    """The hours in which a pool has another size; none that begin on a day of the calendar
    ``except_on`` (empty: of none).
    """

    min: int
    spare: int
    except_on: str = ""


def overlap(one: Schedule, other: Schedule) -> int | None:
    """A minute of the week that lies in both; None where there is none."""
    starts = [begin for each in (one, other) for begin, _ in each.spans()]
    return next((each for each in starts if one.holds(each) and other.holds(each)), None)


def holds_at(schedule: Schedule, now: float, zone: str, holidays: Holidays) -> bool:
    """Whether Unix time ``now`` lies in it, by the clock of ``zone``; hours that began on a holiday
    last until their end on the next day.
    """
    local = datetime.fromtimestamp(now, ZoneInfo(zone))
    minute = local.weekday() * DAY_MIN + local.hour * 60 + local.minute
    for begin, length in schedule.spans():
        passed = (minute - begin) % WEEK_MIN
        if passed < length:
            began = local.replace(tzinfo=None) - timedelta(minutes=passed)
            return began.date().isoformat() not in holidays.get(schedule.except_on, ())
    return False


def minute_of_week(now: float, zone: str) -> int:
    """What the wall clock of ``zone`` shows at Unix time ``now``; Monday 00:00 is 0."""
    local = datetime.fromtimestamp(now, ZoneInfo(zone))
    return local.weekday() * DAY_MIN + local.hour * 60 + local.minute
