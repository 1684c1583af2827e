"""``kind: Calendar``: days with names, by which pools and notifications go."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from vgpumgr.model.holiday_calendar import MOST_DAYS, HolidayCalendar
from vgpumgr.spec.fields import Line, Name, Strict, refuse
from vgpumgr.spec.single_kind import load_documents


def _day(value: Any) -> Any:
    """YAML reads 2026-12-25 as a date; in quotes it is a text."""
    text = value.isoformat() if isinstance(value, date) else value
    try:
        found = date.fromisoformat(str(text)).isoformat()
    except ValueError:
        found = ""
    if found != text:
        refuse("is not a day, like 2026-12-25")
    return text


class HolidayModel(Strict):
    """A day, and what it is called."""

    day: Annotated[str, BeforeValidator(_day)]
    name: Line


class CalendarModel(Strict):
    """Days with names."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Calendar"]
    name: Name
    days: list[HolidayModel] = Field(min_length=1, max_length=MOST_DAYS)

    @model_validator(mode="after")
    def _once_each(self) -> CalendarModel:
        days = [each.day for each in self.days]
        for number, day in enumerate(days):
            if day in days[:number]:
                refuse(f"{day} is named already", "days", number, "day")
        return self

    def value(self) -> HolidayCalendar:
        """The calendar in the model's words."""
        return HolidayCalendar(name=self.name, days={each.day: each.name for each in self.days})


def load_calendars(data: bytes | str, source: str) -> tuple[HolidayCalendar, ...]:
    """The calendars of a file; ``source`` is its name in messages. SpecError with every problem
    found.
    """
    return load_documents(data, source, CalendarModel, CalendarModel.value, lambda it: it.name)
