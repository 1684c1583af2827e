"""``vgpumgr allocation``."""

from __future__ import annotations

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import Column, list_options, print_list
from vgpumgr.model.codec import to_plain

COLUMNS = (
    Column("ID", lambda item: item["id"][:8]),
    Column("VM", "vm"),
    Column("HOST", "host"),
    Column("GPU", "gpu"),
    Column("PROFILE", "profile"),
    Column("FRAMEWORK", "framework"),
    Column("DEVICE", "device"),
    Column("STATE", "state"),
    Column("SLOTS", "slots", wide=True),
    Column("PARENT", "parent", wide=True),
)


@click.group()
def allocation() -> None:
    """What VMs hold of which GPU."""


@allocation.command("list")
@click.option("--released", is_flag=True, help="The closed ones too.")
@list_options
@pass_context
def list_(context: Context, released: bool) -> None:
    """List allocations."""
    rows = context.app.ledger.allocations(released=released)
    print_list("Allocation", [{"name": each.id, **to_plain(each)} for each in rows], COLUMNS)
