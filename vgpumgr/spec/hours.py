"""``schedules:`` of a pool: when it is larger, by the wall clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from vgpumgr.model.pool import DAYS, Schedule, overlap
from vgpumgr.spec.fields import Line, Strict, refuse

_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00"


def _clock(text: str) -> str:
    if re.fullmatch(_CLOCK, text) is None:
        refuse("is not a time of day: write hours and minutes, like 8:30")
    return text


def _days(text: str) -> str:
    if not set(text.split("-", 1)) <= set(DAYS):
        refuse(f"is not a day: write {', '.join(DAYS)}, or days like mon-fri")
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, OSError, ValueError):  # not found, a folder, no name of a zone at all
        refuse("is not a time zone that this machine knows: write one like Europe/Berlin")
    return text


_Clock = Annotated[
    str, AfterValidator(_clock), Field(json_schema_extra={"pattern": f"^({_CLOCK})$"})
]
_Day = "|".join(DAYS)
_Days = Annotated[
    str,
    AfterValidator(_days),
    Field(json_schema_extra={"pattern": f"^({_Day})(-({_Day}))?$"}),
]
Zone = Annotated[Line, AfterValidator(_zone)]


class ScheduleModel(Strict):
    """Hours of some days, with the numbers of desktops in them."""

    days: list[_Days] = Field(min_length=1, max_length=7)
    start: _Clock = Field(alias="from")
    end: _Clock = Field(alias="to")
    min: int = Field(ge=0)
    spare: int = Field(ge=0)

    def value(self) -> Schedule:
        """The schedule in the model's words."""
        return Schedule(
            days=tuple(sorted({day for days in self.days for day in _each(days)})),
            start=_minutes(self.start),
            end=_minutes(self.end),
            min=self.min,
            spare=self.spare,
        )


def check_schedules(schedules: Sequence[ScheduleModel], most: int) -> None:
    """Refuse two that hold at one time, and one that asks for more than ``most``."""
    values = [each.value() for each in schedules]
    for number, value in enumerate(values):
        for what in ("min", "spare"):
            if (count := getattr(value, what)) > most:
                refuse(f"{count} is more than max: {most}", "schedules", number, what)
        for earlier, other in enumerate(values[:number]):
            if (minute := overlap(other, value)) is not None:
                when = f"{DAYS[minute // 1440]} {minute % 1440 // 60}:{minute % 60:02d}"
                refuse(f"overlaps schedules[{earlier}] on {when}", "schedules", number)


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return (int(hours) * 60 + int(minutes)) % 1440


def _each(days: str) -> list[int]:
    """``fri-mon`` → 4, 5, 6, 0."""
    first, last = (DAYS.index(part) for part in (days.split("-") * 2)[:2])
    return [(first + step) % 7 for step in range((last - first) % 7 + 1)]
