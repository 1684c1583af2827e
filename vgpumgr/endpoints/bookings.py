"""The endpoints of bookings: create, list, cancel."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.known_profiles import known_profile
from vgpumgr.endpoints.pools import User
from vgpumgr.endpoints.shapes import ItemList, Name, Time
from vgpumgr.model.desktop import Booking
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.pool import MAX_DESKTOPS, PoolSpec

_YEARS = range(2000, 2201)
"""Any time zone can show them."""

BookingItem = TypedDict(
    "BookingItem",
    {
        "name": str,
        "group": str,
        "profile": str,
        "count": int,
        "in_use": int,
        "starts_at": Time,
        "ends_at": Time,
        "from": str,
        "to": str,
        "state": str,
        "pool": str | None,
        "time_zone": str,
        "missing": int,
    },
)
"""Desktops of ``pool`` that are reserved for a group; ``from`` and ``to`` are by the wall clock of
its time zone. ``missing`` find no room beside VMs that will still run then."""


def moment(text: str) -> datetime:
    """A time like ``2027-03-01 09:00``, with or without an offset; ValueError for anything else."""
    found = datetime.fromisoformat(text)
    if found.year not in _YEARS:
        raise ValueError(f"the year {found.year}")
    return found


def _unix(text: str, zone: ZoneInfo) -> float:
    try:
        found = moment(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time: write one like '2027-03-01 09:00'") from error
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()


def _shown(at: float, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at, zone).isoformat(sep=" ", timespec="minutes")[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBooking:
    """Desktops with ``profile`` for a group that a pool entitles, from ``begins`` to ``ends``;
    times without an offset are by the wall clock of the pool's time zone.
    """

    group: User
    profile: Name
    count: Annotated[int, ParameterLimits(ge=1, le=MAX_DESKTOPS)]
    begins: Annotated[str, ParameterLimits(max_length=64)]
    ends: Annotated[str, ParameterLimits(max_length=64)]


def create_booking(context: CallContext, asked: CreateBooking) -> Result[BookingItem]:
    """Reserve them; Conflict where their room is taken already."""
    from vgpumgr.engine.pools.bookings import BookingRequest

    engine = context.app.engine
    profile = known_profile(context.app.ledger, asked.profile)
    pool = engine.booking_pool(asked.group, profile, context.scope).spec
    zone = ZoneInfo(pool.zone)
    start, end = _unix(asked.begins, zone), _unix(asked.ends, zone)
    request = BookingRequest(
        group=asked.group,
        profile=profile,
        count=asked.count,
        start=start,
        end=end,
        scope=context.scope,
    )
    return Result(answer=_item(engine.book(request), pool, 0, time.time(), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingFilter:
    """Bookings; ``past``: ended ones, too."""

    past: bool = False


def list_bookings(context: CallContext, asked: BookingFilter) -> Result[ItemList[BookingItem]]:
    """They by when they begin; one cannot be honoured while VMs that may outlast its start hold
    its capacity.
    """
    items = [each for each in _items(context) if asked.past or each["state"] != "over"]
    return Result(answer={"items": items})


def _items(context: CallContext) -> Iterator[BookingItem]:
    from vgpumgr.engine.desktops.booked_capacity import OpenBookings
    from vgpumgr.engine.desktops.pool_size import serving_pool
    from vgpumgr.engine.inventory.ledger_view import read_view

    ledger, reads, now = context.app.ledger, context.reads, time.time()
    unkept = OpenBookings(ledger, now).unkept(read_view(ledger))
    missing = {each.booking.id: each.missing for each in unkept}
    specs = [each.spec for each in reads.pools()]
    sessions = [each.desktop.session for each in reads.desktops()]
    for each in reads.bookings():
        in_use = sum(one is not None and one.booking == each.id for one in sessions)
        yield _item(each, serving_pool(each, specs), in_use, now, missing.get(each.id, 0))


def _item(
    each: Booking, pool: PoolSpec | None, in_use: int, now: float, missing: int
) -> BookingItem:
    zone = ZoneInfo(pool.zone if pool else "UTC")
    state = "over" if each.end <= now else "holds" if each.start <= now else "to come"
    if not pool:
        state = f"{state}, no pool serves it"
    if missing:
        are = "is" if missing == 1 else "are"
        state += f", cannot be honoured: {missing} of {each.count} {are} missing"
    return {
        "name": each.id,
        "group": each.group,
        "profile": each.profile,
        "count": each.count,
        "in_use": in_use,
        "starts_at": each.start,
        "ends_at": each.end,
        "from": _shown(each.start, zone),
        "to": _shown(each.end, zone),
        "state": state,
        "pool": pool.name if pool else None,
        "time_zone": zone.key,
        "missing": missing,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBooking:
    """A booking by its id."""

    name: Name


class CancelledBooking(TypedDict):
    """A booking that was cancelled."""

    name: str


def delete_booking(context: CallContext, asked: OneBooking) -> Result[CancelledBooking]:
    """Cancel it; users who have a desktop keep it."""
    if not any(each.id == asked.name for each in context.reads.bookings()):
        raise NotFound(f"no booking {asked.name}", next="vgpumgr booking list")
    context.app.writable_ledger.cancel_booking(asked.name)
    return Result(answer={"name": asked.name})


CREATE_BOOKING = Endpoint(
    name="booking.create",
    method=HttpMethod.POST,
    path="/bookings",
    permission=Permission.BOOKING_WRITE,
    summary="Reserve desktops for a group and a time.",
    asks=CreateBooking,
    answers=BookingItem,
    kind="Booking",
    work=create_booking,
    runs=Runs.WORKER,
    scoped=True,
)
LIST_BOOKINGS = Endpoint(
    name="booking.list",
    method=HttpMethod.GET,
    path="/bookings",
    permission=Permission.BOOKING_READ,
    summary="Bookings by when they begin.",
    asks=BookingFilter,
    answers=ItemList[BookingItem],
    kind="BookingList",
    work=list_bookings,
    runs=Runs.WORKER,
    scoped=True,
)
DELETE_BOOKING = Endpoint(
    name="booking.delete",
    method=HttpMethod.DELETE,
    path="/bookings/{name}",
    permission=Permission.BOOKING_WRITE,
    summary="Cancel a booking; users who have a desktop keep it.",
    asks=OneBooking,
    answers=CancelledBooking,
    kind="CancelledBooking",
    work=delete_booking,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (CREATE_BOOKING, LIST_BOOKINGS, DELETE_BOOKING)
