"""The commands on a VM's snapshots: vm snapshot create, list, revert, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import guest_timeout_option
from vgpumgr.cli.output import Column, list_options, output_option, print_list
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcome_views import print_outcome_result, with_users_option
from vgpumgr.endpoints import vm_snapshots
from vgpumgr.endpoints.vms import OneVm

COLUMNS = (
    Column("NAME", "name"),
    Column("AGE", lambda item: age(item["created_at"])),
    Column("MOMENT", "moment"),
    Column("OVER", lambda item: item["over"] or "-"),
    Column("CURRENT", lambda item: "yes" if item["current"] else ""),
    Column(
        "VOLUMES",
        lambda item: ",".join(f"{each['pool']}/{each['name']}" for each in item["volumes"]),
        wide=True,
    ),
)


@click.group()
def snapshot() -> None:
    """Snapshots of a VM's disks: create, list, revert, delete."""


@snapshot.command()
@click.argument("name", shell_complete=completed("vms"))
@click.argument("snapshot")
@click.option("--freeze", is_flag=True, help="Have the guest's agent freeze its file systems.")
@click.option("--memory", is_flag=True, help="The guest's memory, too: refused, with the reason.")
@output_option
@pass_context
def create(context: Context, /, **asked: Any) -> None:
    """Keep what the disks of the VM NAME hold now, all at one moment, as SNAPSHOT.

    A guest that runs on looks in it as after a power cut, unless it is frozen.
    """
    endpoint = vm_snapshots.CREATE_SNAPSHOT
    print_outcome_result(carry_out(context, endpoint, vm_snapshots.CreateSnapshot(**asked)))


@snapshot.command("list")
@click.argument("name", shell_complete=completed("vms"))
@list_options
@pass_context
def list_(context: Context, name: str) -> None:
    """List the snapshots of a VM, the oldest first."""
    found = context.read(vm_snapshots.LIST_SNAPSHOTS, OneVm(name=name))
    print_list("Snapshot", found.answer["items"], COLUMNS)
    finish(found)


@snapshot.command()
@click.argument("name", shell_complete=completed("vms"))
@click.argument("snapshot", shell_complete=completed("snapshots"))
@click.option("--restart", is_flag=True, help="Stop it if it runs, and start it again.")
@guest_timeout_option
@with_users_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def revert(context: Context, /, *, yes: bool, **asked: Any) -> None:
    """Bring the disks of the VM NAME back to SNAPSHOT; what was written since is lost.

    The VM is off, or stopped with --restart. All snapshots stay, newer ones as well.
    """
    if _is_there(context, asked):
        confirm(yes=yes)(f"lose what {asked['name']} wrote since it was last kept?")
    endpoint = vm_snapshots.REVERT_VM
    print_outcome_result(carry_out(context, endpoint, vm_snapshots.RevertVm(**asked)))


@snapshot.command()
@click.argument("name", shell_complete=completed("vms"))
@click.argument("snapshot", shell_complete=completed("snapshots"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(context: Context, /, *, yes: bool, **asked: Any) -> None:
    """Delete a snapshot; the VM's disks and its other snapshots stay as they are."""
    if _is_there(context, asked):
        confirm(yes=yes)(f"delete snapshot {asked['snapshot']} of {asked['name']}?")
    endpoint = vm_snapshots.DELETE_SNAPSHOT
    print_outcome_result(carry_out(context, endpoint, vm_snapshots.OneSnapshot(**asked)))


def _is_there(context: Context, asked: Mapping[str, Any]) -> bool:
    """Nothing is asked about a snapshot that the command will be refused for."""
    found = context.read(vm_snapshots.LIST_SNAPSHOTS, OneVm(name=asked["name"]))
    return any(each["name"] == asked["snapshot"] for each in found.answer["items"])
