"""The commands `backup create`, `list`, `show`, `verify`, `restore` and `delete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.backup_target import target
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
)
from vgpumgr.cli.running_command import carry_out, finish, telling
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcome_views import outcome_text, print_outcome_result
from vgpumgr.endpoints import vm_backups
from vgpumgr.model.formats import counted

Item = Mapping[str, Any]
_ONE = click.argument("backup", metavar="ID", shell_complete=completed("backups"))


def _state(item: Item) -> str:
    return "damaged" if item["fault"] else str(item["state"])


COLUMNS = (
    Column("ID", "name"),
    Column("VM", lambda item: f"{item['vm']}{' (deleted)' if item['deleted'] else ''}"),
    Column("TARGET", "target"),
    Column("AGE", lambda item: age(item["created_at"])),
    Column("MOMENT", "moment"),
    Column("OVER", lambda item: item["parent"][:8] or "-"),
    Column("STATE", _state),
    Column("VERIFIED", lambda item: age(item["verified_at"])),
    Column("BY", lambda item: "schedule" if item["scheduled"] else "command"),
    Column("HOST", "host", wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("FAULT", "fault", wide=True),
)


@click.group()
def backup() -> None:
    """Backups of VMs: create, list, show, verify, restore, delete, target."""


backup.add_command(target)


@backup.command()
@click.argument("name", metavar="VM", shell_complete=completed("vms"))
@click.option(
    "--target",
    default="",
    metavar="NAME",
    help="Where to. [default: the only target]",
    shell_complete=completed("backup-targets"),
)
@click.option(
    "--freeze/--no-freeze",
    default=None,
    help="Have the guest's agent freeze its file systems. [default: as the target says]",
)
@output_option
@pass_context
def create(context: Context, /, **asked: Any) -> None:
    """Copy what all disks of VM hold at one moment to a target, while it runs or is off.

    A guest that runs looks in it as after a power cut, unless it is frozen for that moment.
    """
    made = carry_out(context, vm_backups.CREATE_BACKUP, vm_backups.CreateBackup(**asked))
    text = f"backup {made.answer['backup'][:8]} of {asked['name']}: {outcome_text(made.answer)}"
    print_item("BackupMade", made.answer, text)
    finish(made)


@backup.command("list")
@click.argument("vm", default="", shell_complete=completed("vms"))
@click.option(
    "--target",
    default="",
    metavar="NAME",
    help="Only what is on this target.",
    shell_complete=completed("backup-targets"),
)
@list_options
@pass_context
def list_(context: Context, vm: str, target: str) -> None:
    """List backups, of VM alone if it is given, the oldest first; those of deleted VMs as well."""
    asked = vm_backups.BackupFilter(vm=vm, target=target)
    print_list("Backup", context.read(vm_backups.LIST_BACKUPS, asked).answer["items"], COLUMNS)


@backup.command()
@_ONE
@output_option
@pass_context
def show(context: Context, backup: str) -> None:
    """Show a backup; ID may be the beginning of one."""
    item = context.read(vm_backups.SHOW_BACKUP, vm_backups.OneBackup(backup=backup)).answer
    print_item("Backup", item, _text(item))


def _text(item: Item) -> str:
    return fields(
        [
            ("ID", item["id"]),
            ("VM", f"{item['vm']}{' (deleted)' if item['deleted'] else ''}"),
            ("Tenant", item["tenant"]),
            ("Target", f"{item['target']} (storage pool {item['pool']})"),
            ("Made", f"{age(item['created_at'])} ago by {item['host']}"),
            ("Moment", item["moment"]),
            ("Over", item["parent"]),
            ("State", _state(item)),
            ("Verified", f"{age(item['verified_at'])} ago" if item["verified_at"] else "never"),
            ("Fault", item["fault"]),
        ]
    )


@backup.command()
@_ONE
@output_option
@pass_context
def verify(context: Context, backup: str) -> None:
    """Read all bytes of a backup and compare them with what its manifest says."""
    with telling(lambda: f"vgpumgr backup verify {backup}"):
        found = context.act(vm_backups.VERIFY_BACKUP, vm_backups.OneBackup(backup=backup))
    item = found.answer
    if not item["fault"]:
        whole = f"backup {item['name']} of {item['vm']} is whole"
        print_item("VerifiedBackup", item, f"{whole}: {counted(item['disks'], 'disk')} compared")
    finish(found)


@backup.command()
@_ONE
@click.option("--name", default="", metavar="VM", help="The VM's name. [default: as it was]")
@click.option(
    "--gpu", "profiles", multiple=True, metavar="PROFILE", help="Other GPU parts; may be repeated."
)
@click.option("--no-gpus", is_flag=True, help="Without GPU parts.")
@click.option("--pool", default="", help="The storage pool of its disks. [default: as they were]")
@output_option
@pass_context
def restore(context: Context, /, **asked: Any) -> None:
    """Make a VM of a backup, on any host that sees it, and start it.

    Nothing is overwritten: the name must be free.
    """
    from vgpumgr.cli.views.plan_views import plan_text

    made = carry_out(context, vm_backups.RESTORE_BACKUP, vm_backups.RestoreBackup(**asked))
    finish(made)
    print_item("Apply", made.answer, plan_text(made.answer))


@backup.command()
@_ONE
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(context: Context, backup: str, yes: bool) -> None:
    """Delete a backup from its target."""
    asked = vm_backups.OneBackup(backup=backup)
    item = context.read(vm_backups.SHOW_BACKUP, asked).answer
    confirm(yes=yes)(f"delete backup {item['name']} of {item['vm']}?")
    print_outcome_result(carry_out(context, vm_backups.DELETE_BACKUP, asked))
