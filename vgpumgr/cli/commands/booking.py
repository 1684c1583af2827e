"""The commands `booking create`, `list` and `delete`: desktops reserved for a group and a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.pool import a_name
from vgpumgr.cli.options import known_profile
from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.model.desktop import Booking
from vgpumgr.model.formats import counted
from vgpumgr.model.pool import MAX_DESKTOPS, PoolSpec

COLUMNS = (
    Column("BOOKING", "name"),
    Column("GROUP", "group"),
    Column("PROFILE", "profile"),
    Column("COUNT", "count"),
    Column("IN USE", "in_use"),
    Column("FROM", "from"),
    Column("TO", "to"),
    Column("STATE", "state"),
    Column("POOL", "pool"),
)

# Any zone can show them.
_YEARS = range(2000, 2201)


@click.group()
def booking() -> None:
    """Desktops reserved for a group in a window of time: create, list, delete."""


def _moment(_ctx: click.Context, _param: click.Parameter, text: str) -> datetime:
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        if found.year in _YEARS:
            return found
    raise click.BadParameter(f"{text!r} is not a time: write one like '2027-03-01 09:00'")


@booking.command()
@click.option(
    "--group",
    required=True,
    callback=a_name,
    help="Group the desktops are reserved for; a pool must entitle it.",
)
@click.option("--profile", required=True, help="The profile of the pool's desktops.")
@click.option(
    "--count", type=click.IntRange(1, MAX_DESKTOPS), required=True, help="Number of desktops."
)
@click.option("--from", "start", callback=_moment, required=True, metavar="TIME")
@click.option("--to", "end", callback=_moment, required=True, metavar="TIME")
@pass_context
def create(
    context: Context, group: str, profile: str, count: int, start: datetime, end: datetime
) -> None:
    """Reserve desktops for a group; times are by the wall clock of its pool's time zone.

    The pool with that profile that entitles the group creates them before the window begins. Until
    it ends, their capacity is given to nobody else. Exit 4 where it is taken already.
    """
    from vgpumgr.engine.pools.bookings import BookingRequest

    engine = context.app.engine
    made = known_profile(context, profile)
    pool = engine.booking_pool(group, made).spec
    zone = ZoneInfo(pool.zone)
    request = BookingRequest(
        group=group, profile=made, count=count, start=_unix(start, zone), end=_unix(end, zone)
    )
    booked = engine.book(request)
    say(
        f"booking {booked.id}: {counted(count, 'desktop')} of pool {pool.name} for {group}, "
        f"{_shown(booked.start, zone)} to {_shown(booked.end, zone)} ({pool.zone})"
    )


def _unix(moment: datetime, zone: ZoneInfo) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def _shown(at: float, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at, zone).isoformat(sep=" ", timespec="minutes")[:16]


@booking.command("list")
@click.option("-a", "--all", "past", is_flag=True, help="Include bookings that have ended.")
@list_options
@pass_context
def list_(context: Context, past: bool) -> None:
    """List bookings by when they begin, in their pool's time zone.

    A booking cannot be honoured while VMs that outlast its start, or may, hold its capacity.
    """
    now = time.time()
    items = [each for each in _items(context, now) if past or each["state"] != "over"]
    print_list("Booking", items, COLUMNS)


def _items(context: Context, now: float) -> Iterator[dict[str, Any]]:
    from vgpumgr.engine.desktops.booked_capacity import OpenBookings
    from vgpumgr.engine.desktops.pool_size import serving_pool
    from vgpumgr.engine.inventory.ledger_view import read_view

    ledger = context.app.ledger
    unkept = OpenBookings(ledger, now).unkept(read_view(ledger))
    missing = {each.booking.id: each.missing for each in unkept}
    specs = [each.spec for each in ledger.pools()]
    sessions = [each.desktop.session for each in ledger.desktops()]
    for each in ledger.bookings():
        in_use = sum(one is not None and one.booking == each.id for one in sessions)
        item = _item(each, serving_pool(each, specs), in_use, now)
        yield _unkept(item, missing.get(each.id, 0))


def _unkept(item: dict[str, Any], missing: int) -> dict[str, Any]:
    """With the desktops that find no room beside VMs that will still run then."""
    if missing:
        are = "is" if missing == 1 else "are"
        item["state"] += f", cannot be honoured: {missing} of {item['count']} {are} missing"
    return {**item, "missing": missing}


def _item(each: Booking, pool: PoolSpec | None, in_use: int, now: float) -> dict[str, Any]:
    zone = ZoneInfo(pool.zone if pool else "UTC")
    state = "over" if each.end <= now else "holds" if each.start <= now else "to come"
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
        "state": state if pool else f"{state}, no pool serves it",
        "pool": pool.name if pool else None,
        "time_zone": zone.key,
    }


@booking.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="BOOKING...", shell_complete=completed("bookings")
)
@pass_context
def delete(context: Context, names: tuple[str, ...]) -> None:
    """Cancel bookings; users who have a desktop keep it."""
    ledger = context.app.writable_ledger
    for name in names:
        ledger.cancel_booking(name)
        say(f"booking {name} is cancelled")
