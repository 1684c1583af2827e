"""The endpoints of calendars: list, apply, remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing
from vgpumgr.model.holiday_calendar import HolidayCalendar


class HolidayItem(TypedDict):
    """A day, like ``2026-12-25``, and what it is called."""

    day: str
    name: str


class CalendarItem(TypedDict):
    """Days with names."""

    name: str
    days: list[HolidayItem]


def _item(calendar: HolidayCalendar) -> CalendarItem:
    days: list[HolidayItem] = [
        {"day": day, "name": name} for day, name in sorted(calendar.days.items())
    ]
    return {"name": calendar.name, "days": days}


def list_calendars(context: CallContext, _: Nothing) -> Result[ItemList[CalendarItem]]:
    """Every calendar, by name."""
    return Result(answer={"items": [_item(each) for each in context.app.ledger.calendars()]})


def apply_calendars(context: CallContext, asked: DocumentText) -> Result[ItemList[CalendarItem]]:
    """Write the calendars of a file, each over the one of its name; answers with all there are."""
    from vgpumgr.spec.calendar_document import load_calendars

    text = asked.text.encode(errors="surrogatepass")
    for each in load_calendars(text, source_name(asked.source)):
        context.app.writable_ledger.set_calendar(each)
    return list_calendars(context, Nothing())


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCalendar:
    """A calendar by its name."""

    name: Name


class CalendarName(TypedDict):
    """A calendar."""

    name: str


def remove_calendar(context: CallContext, asked: OneCalendar) -> Result[CalendarName]:
    """Forget it; NotFound where there is none, InUse while a pool or notification names it."""
    context.app.writable_ledger.remove_calendar(asked.name)
    return Result(answer={"name": asked.name})


LIST_CALENDARS = Endpoint(
    name="calendar.list",
    method=HttpMethod.GET,
    path="/calendars",
    permission=Permission.FLEET_READ,
    summary="Holidays that pools and notifications go by.",
    asks=Nothing,
    answers=ItemList[CalendarItem],
    kind="CalendarList",
    work=list_calendars,
    scoped=True,
)
APPLY_CALENDARS = Endpoint(
    name="calendar.apply",
    method=HttpMethod.POST,
    path="/calendars:apply",
    permission=Permission.CALENDAR_WRITE,
    summary="Write the calendars of a file.",
    asks=DocumentText,
    answers=ItemList[CalendarItem],
    kind="CalendarList",
    work=apply_calendars,
)
REMOVE_CALENDAR = Endpoint(
    name="calendar.remove",
    method=HttpMethod.DELETE,
    path="/calendars/{name}",
    permission=Permission.CALENDAR_WRITE,
    summary="Remove a calendar that nothing goes by.",
    asks=OneCalendar,
    answers=CalendarName,
    kind="Calendar",
    work=remove_calendar,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_CALENDARS, APPLY_CALENDARS, REMOVE_CALENDAR)
