"""The commands `flavour list`, `show` and `delete`; `apply` sets them from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.flavours import (
    DELETE_FLAVOUR,
    LIST_FLAVOURS,
    SHOW_FLAVOUR,
    FlavourItem,
    OneFlavour,
)
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.formats import spanned

Item = Mapping[str, Any]


def gpus_text(item: Item) -> str:
    """``A40-8Q, A40-8Q ×2``."""
    return ", ".join(_gpu(each) for each in item["keys"].get("gpus", []))


def _gpu(part: Item) -> str:
    count = f" ×{part['count']}" if part.get("count", 1) > 1 else ""
    return f"{part.get('profile') or part.get('memory')}{count}"


def disks_text(item: Item) -> str:
    """``20GiB, cad@12``."""
    found = item["keys"].get("disks", [])
    return ", ".join(str(each.get("image") or each.get("size")) for each in found)


COLUMNS = (
    Column("NAME", "name"),
    Column("VCPUS", lambda item: item["keys"].get("vcpus", "-")),
    Column("MEMORY", lambda item: item["keys"].get("memory", "-")),
    Column("GPUS", lambda item: gpus_text(item) or "-"),
    Column("DISKS", lambda item: disks_text(item) or "-"),
    Column("CLASS", lambda item: item["host_class"] or "-"),
    Column("VMS", lambda item: len(item["vms"])),
    Column("POOLS", lambda item: len(item["pools"])),
    Column("SET", lambda item: age(item["set_at"]), wide=True),
    Column("BY", "set_by", wide=True),
)


@click.group()
def flavour() -> None:
    """Flavours: sizes of VMs by name; `apply` sets them."""


@flavour.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List flavours, and how many VMs and pools have each."""
    print_list("Flavour", context.read(LIST_FLAVOURS, Nothing()).answer["items"], COLUMNS)


@flavour.command()
@click.argument("name", shell_complete=completed("flavours"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a flavour, and which VMs and pools have it."""
    item = context.read(SHOW_FLAVOUR, OneFlavour(name=name)).answer
    print_item("Flavour", item, _text(item))


def _text(item: FlavourItem) -> str:
    keys = item["keys"]
    return fields(
        [
            ("Name", item["name"]),
            ("vCPUs", keys.get("vcpus")),
            ("Memory", keys.get("memory")),
            ("GPUs", gpus_text(item)),
            ("Disks", disks_text(item)),
            ("Class", item["host_class"]),
            ("Set", f"{age(item['set_at'])} ago by {item['set_by']}"),
            ("VMs", spanned(item["vms"]) if item["vms"] else ""),
            ("Pools", ", ".join(item["pools"])),
        ]
    )


@flavour.command()
@click.argument("name", shell_complete=completed("flavours"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_context
def delete(context: Context, name: str, yes: bool) -> None:
    """Forget a flavour that no VM and no pool has."""
    context.read(SHOW_FLAVOUR, OneFlavour(name=name))
    confirm(yes=yes)(f"delete flavour {name}?")
    context.act(DELETE_FLAVOUR, OneFlavour(name=name))
    say(f"flavour {name} is deleted")
