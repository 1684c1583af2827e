"""The command `allocation list`: what VMs hold of each GPU."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import Column, list_options, print_list
from vgpumgr.endpoints import gpus
from vgpumgr.model.formats import ranges

COLUMNS = (
    Column("ID", lambda item: item["id"][:8]),
    Column("VM", "vm"),
    Column("HOST", "host"),
    Column("GPU", "gpu"),
    Column("PROFILE", "profile"),
    Column("FRAMEWORK", "framework"),
    Column("DEVICE", "device"),
    Column("STATE", "state"),
    Column("SLOTS", lambda item: ranges(item["slots"]), wide=True),
    Column("PARENT", "parent", wide=True),
    Column("VF", "vf", wide=True),
    Column("INSTANCE", lambda item: _instance_text(item["instance"]), wide=True),
    Column("PLACEMENT", "placement_id", wide=True),
)


def _instance_text(instance: dict[str, Any] | None) -> str:
    return f"{instance['profile']}@{instance['start']}" if instance else ""


@click.group()
def allocation() -> None:
    """What VMs hold of which GPU."""


@allocation.command("list")
@click.option("--released", is_flag=True, help="Include closed allocations.")
@list_options
@pass_context
def list_(context: Context, released: bool) -> None:
    """List allocations."""
    asked = gpus.AllocationFilter(released=released)
    print_list("Allocation", context.read(gpus.LIST_ALLOCATIONS, asked).answer["items"], COLUMNS)
