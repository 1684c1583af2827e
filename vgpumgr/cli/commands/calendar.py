"""The commands `calendar list`, `apply` and `remove`: holidays by name."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, Item, list_options, print_list, say
from vgpumgr.cli.user_files import document_text, file_option
from vgpumgr.endpoints.calendars import (
    APPLY_CALENDARS,
    LIST_CALENDARS,
    REMOVE_CALENDAR,
    OneCalendar,
)
from vgpumgr.endpoints.shapes import Nothing


def _days(item: Item) -> str:
    """``2026-12-25 Christmas Day, 2026-12-26 … and 9 more``."""
    days = [f"{each['day']} {each['name']}" for each in item["days"]]
    more = f" and {len(days) - 3} more" if len(days) > 3 else ""
    return f"{', '.join(days[:3])}{more}"


COLUMNS = (
    Column("NAME", "name"),
    Column("COUNT", lambda item: len(item["days"])),
    Column("DAYS", _days),
)


@click.group()
def calendar() -> None:
    """Holidays that pools and notifications go by: list, apply, remove."""


@calendar.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List the calendars with their days."""
    print_list("Calendar", context.read(LIST_CALENDARS, Nothing()).answer["items"], COLUMNS)


@calendar.command()
@file_option
@list_options
@pass_context
def apply(context: Context, file: str) -> None:
    """Write the calendars of a file, each over the one of its name."""
    found = context.act(APPLY_CALENDARS, document_text(file))
    print_list("Calendar", found.answer["items"], COLUMNS)


@calendar.command()
@click.argument("name", shell_complete=completed("calendars"))
@pass_context
def remove(context: Context, name: str) -> None:
    """Remove a calendar; refused while a pool or a notification goes by it."""
    context.act(REMOVE_CALENDAR, OneCalendar(name=name))
    say(f"calendar {name} is removed")
