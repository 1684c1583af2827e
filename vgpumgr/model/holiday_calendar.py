"""Holidays: days with names, by which schedules of pools and quiet hours of notifications go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol
from zoneinfo import ZoneInfo

MOST_CALENDARS, MOST_DAYS = 100, 2000

Holidays = Mapping[str, frozenset[str]]
"""By the calendar's name its days, like ``2026-12-25``."""
NO_HOLIDAYS: Holidays = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class HolidayCalendar:
    """``days`` are ISO dates with what each is called; a day is one by the clock of who asks."""

    name: str
    days: Mapping[str, str] = field(default_factory=dict)


def holidays_of(calendars: Iterable[HolidayCalendar]) -> Holidays:
    """The days of each."""
    return {each.name: frozenset(each.days) for each in calendars}


def date_at(now: float, zone: str) -> str:
    """The day at Unix time ``now`` by the wall clock of ``zone``."""
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date().isoformat()


class CalendarLedger(Protocol):
    """Calendars in the ledger. Every method is one transaction."""

    def calendars(self) -> tuple[HolidayCalendar, ...]:
        """Every calendar, by name."""

    def set_calendar(self, calendar: HolidayCalendar) -> None:
        """Write a calendar over the one of its name; Conflict where there are too many."""

    def remove_calendar(self, name: str) -> None:
        """Forget one; NotFound where there is none, InUse while a pool or notification names it."""
