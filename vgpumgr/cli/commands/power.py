"""The commands `power list`, `show`, `apply` and `remove`: what may be drawn, and what is."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    Item,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.user_files import document_text, file_option
from vgpumgr.endpoints.power_budgets import (
    APPLY_POWER,
    LIST_POWER,
    REMOVE_POWER,
    SHOW_POWER,
    OnePowerBudget,
)
from vgpumgr.endpoints.shapes import Nothing


def _measured(item: Item) -> str:
    return "" if item["measured_watts"] is None else f"{item['measured_watts']} W"


COLUMNS = (
    Column("NAME", "name"),
    Column("UNDER", "parent"),
    Column("BUDGET", lambda item: f"{item['watts']} W"),
    Column("PLANNED", lambda item: f"{item['planned_watts']} W"),
    Column("LEFT", lambda item: f"{item['left_watts']} W"),
    Column("MEASURED", _measured),
    Column("HOSTS", lambda item: len(item["hosts"])),
    Column("GPUS IN USE", "gpus_in_use"),
    Column("HELD", "held"),
    Column("WITHOUT GPUS", lambda item: f"{item['base_watts']} W", wide=True),
)


@click.group()
def power() -> None:
    """Power budgets of sites, racks, PDUs and hosts: list, show, apply, remove."""


@power.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List the power budgets: what may be drawn, is planned, is left, and is measured."""
    print_list("PowerBudget", context.read(LIST_POWER, Nothing()).answer["items"], COLUMNS)


@power.command()
@click.argument("name", shell_complete=completed("power budgets"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a power budget, those under it, and the GPUs that are held for it."""
    found = context.read(SHOW_POWER, OnePowerBudget(name=name)).answer
    print_item("PowerBudget", found, fields(_lines(found)))


def _lines(item: Item) -> list[tuple[str, object]]:
    return [
        ("Name", item["name"]),
        ("Under", item["parent"]),
        ("Budget", f"{item['watts']} W"),
        ("Planned", f"{item['planned_watts']} W, {item['base_watts']} W of it without GPUs"),
        ("Left", f"{item['left_watts']} W"),
        ("Measured", _measured(item)),
        ("Meter", item["meter"]),
        ("Hosts", ", ".join(item["hosts"])),
        ("GPUs in use", item["gpus_in_use"]),
        *(("Contains", _child(each)) for each in item["children"]),
        *(("Held", _held(each)) for each in item["caps"]),
    ]


def _child(item: Item) -> str:
    return f"{item['name']}: {item['planned_watts']} of {item['watts']} W planned"


def _held(cap: Item) -> str:
    """``g-1 on h1: 200 W, clocks up to 900 MHz (rack-1)``."""
    clocks = cap["locked_clocks_mhz"]
    limit = None if cap["limit_watts"] is None else f"{cap['limit_watts']} W"
    locked = f"clocks up to {clocks[1]} MHz" if clocks else None
    by = ", ".join(each for each in (limit, locked) if each)
    return f"{cap['gpu']} on {cap['host']}: {by} ({cap['why']})"


@power.command()
@file_option
@list_options
@pass_context
def apply(context: Context, file: str) -> None:
    """Write the power budgets of a file, each over that of its name; others stay."""
    found = context.act(APPLY_POWER, document_text(file))
    print_list("PowerBudget", found.answer["items"], COLUMNS)
    finish(found)


@power.command()
@click.argument("name", shell_complete=completed("power budgets"))
@pass_context
def remove(context: Context, name: str) -> None:
    """Remove a power budget; refused while others are under it."""
    found = context.act(REMOVE_POWER, OnePowerBudget(name=name))
    say(f"power budget {found.answer['name']} is removed")
