"""The commands `booking create`, `list` and `delete`: desktops reserved for a group and a time."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.pool import a_name
from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.endpoints.bookings import (
    CREATE_BOOKING,
    DELETE_BOOKING,
    LIST_BOOKINGS,
    BookingFilter,
    CreateBooking,
    OneBooking,
    moment,
)
from vgpumgr.model.formats import counted
from vgpumgr.model.pool import MAX_DESKTOPS

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


@click.group()
def booking() -> None:
    """Desktops reserved for a group in a window of time: create, list, delete."""


def _moment(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    try:
        moment(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a time: write one like '2027-03-01 09:00'"
        ) from error
    return text


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
@click.option("--from", "begins", callback=_moment, required=True, metavar="TIME")
@click.option("--to", "ends", callback=_moment, required=True, metavar="TIME")
@pass_context
def create(context: Context, /, **asked: Any) -> None:
    """Reserve desktops for a group; times are by the wall clock of its pool's time zone.

    The pool with that profile that entitles the group creates them before the window begins. Until
    it ends, their capacity is given to nobody else. Exit 4 where it is taken already.
    """
    booked = context.act(CREATE_BOOKING, CreateBooking(**asked)).answer
    say(
        f"booking {booked['name']}: {counted(booked['count'], 'desktop')} of pool {booked['pool']} "
        f"for {booked['group']}, {booked['from']} to {booked['to']} ({booked['time_zone']})"
    )


@booking.command("list")
@click.option("-a", "--all", "past", is_flag=True, help="Include bookings that have ended.")
@list_options
@pass_context
def list_(context: Context, past: bool) -> None:
    """List bookings by when they begin, in their pool's time zone.

    A booking cannot be honoured while VMs that outlast its start, or may, hold its capacity.
    """
    found = context.read(LIST_BOOKINGS, BookingFilter(past=past))
    print_list("Booking", found.answer["items"], COLUMNS)


@booking.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="BOOKING...", shell_complete=completed("bookings")
)
@pass_context
def delete(context: Context, names: tuple[str, ...]) -> None:
    """Cancel bookings; users who have a desktop keep it."""
    for name in names:
        context.act(DELETE_BOOKING, OneBooking(name=name))
        say(f"booking {name} is cancelled")
