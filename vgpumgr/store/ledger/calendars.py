"""Calendars in the ledger."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from vgpumgr.model.codec import dump, load_mapping
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.holiday_calendar import MOST_CALENDARS, HolidayCalendar
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.notifications import list_notifications
from vgpumgr.store.ledger.pools import list_pools
from vgpumgr.store.schema import calendar
from vgpumgr.store.schema.columns import decodes


def list_calendars(connection: Connection) -> tuple[HolidayCalendar, ...]:
    """Every calendar, by name."""
    query = select(calendar).order_by(calendar.c.name)
    return tuple(calendar_of(row) for row in connection.execute(query))


@decodes(calendar)
def calendar_of(row: Any) -> HolidayCalendar:
    """The calendar of a whole row."""
    days = load_mapping(row.days)
    names = {day: name for day, name in days.items() if isinstance(name, str)}
    if len(names) != len(days):
        raise TypeError("its days have no names")
    return HolidayCalendar(name=row.name, days=names)


def set_calendar(connection: Connection, stamp: Stamp, wanted: HolidayCalendar) -> None:
    """Write a calendar over the one of its name."""
    days = dump(dict(sorted(wanted.days.items())))
    is_it = calendar.c.name == wanted.name
    if not connection.execute(update(calendar).where(is_it).values(days=days)).rowcount:
        count = connection.execute(select(func.count()).select_from(calendar)).scalar_one()
        if count >= MOST_CALENDARS:
            raise Conflict(
                f"there are {count} calendars already",
                why=f"the most is {MOST_CALENDARS}",
                next="vgpumgr calendar remove NAME",
            )
        connection.execute(insert(calendar).values(name=wanted.name, days=days))
    detail = f"{wanted.name}: {len(wanted.days)} days"
    write(connection, stamp, [{"event": "calendar.set", "detail": detail}])


def remove_calendar(connection: Connection, stamp: Stamp, name: str) -> None:
    """Forget one; InUse while a pool or notification names it."""
    used = [f"pool {each.name}" for each in list_pools(connection) if name in each.spec.calendars]
    used += [
        f"notification {each.name}"
        for each in list_notifications(connection)
        if each.rule.holidays == name
    ]
    if used:
        raise InUse(
            f"calendar {name} is in use",
            why=", ".join(used),
            next="apply them without it first",
        )
    if not connection.execute(delete(calendar).where(calendar.c.name == name)).rowcount:
        raise NotFound(f"no calendar {name}", next="vgpumgr calendar list")
    write(connection, stamp, [{"event": "calendar.removed", "detail": name}])
