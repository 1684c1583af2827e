"""The commands `backup target create`, `list`, `delete` and `search`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import span
from vgpumgr.cli.output import (
    Column,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import finish, telling
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints import backup_targets
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.formats import counted
from vgpumgr.model.vm import duration_text
from vgpumgr.model.vm_backup import MOST_CHAIN, MOST_KEPT

Item = Mapping[str, Any]
_KEPT = click.IntRange(0, MOST_KEPT)
_RULES = (("last", "last"), ("daily", "days"), ("weekly", "weeks"))


def keep_text(item: Item) -> str:
    """``3 last, 7 days``; ``all``."""
    keep = item["keep"]
    return ", ".join(f"{keep[key]} {name}" for key, name in _RULES if keep[key]) or "all"


def every_text(item: Item) -> str:
    """``1 d``; a dash for never."""
    return duration_text(item["every_s"]) if item["every_s"] else "-"


COLUMNS = (
    Column("NAME", "name"),
    Column("POOL", "pool"),
    Column("EVERY", every_text),
    Column("VMS", lambda item: ", ".join(item["vms"]) or "-"),
    Column("KEEP", keep_text),
    Column("BACKUPS", "backups"),
    Column("FULL", lambda item: f"1 in {item['full_every']}", wide=True),
    Column("FREEZE", lambda item: "yes" if item["freeze"] else "", wide=True),
    Column("SET", lambda item: age(item["set_at"]), wide=True),
    Column("BY", "set_by", wide=True),
)


def _text(item: Item) -> str:
    """``backup target vault: pool backups; web-* every 1 d, kept: 3 last``."""
    text = f"backup target {item['name']}: pool {item['pool']}"
    if not item["vms"]:
        return f"{text}; no schedule"
    return f"{text}; {', '.join(item['vms'])} every {every_text(item)}, kept: {keep_text(item)}"


@click.group()
def target() -> None:
    """Where VMs are backed up to: create, list, delete, search."""


@target.command()
@click.argument("name")
@click.option("--pool", required=True, help="The storage pool of that name on the VMs' hosts.")
@click.option(
    "--vm",
    "vms",
    multiple=True,
    metavar="PATTERN",
    help="VMs that are backed up by themselves, like web-* or *; may be repeated.",
)
@click.option("--every", "every_s", callback=span, metavar="TIME", help="How often: 1d, 6h.")
@click.option("--last", type=_KEPT, default=0, help="How many of the newest of a VM to keep.")
@click.option("--daily", type=_KEPT, default=0, help="And the newest of how many days.")
@click.option("--weekly", type=_KEPT, default=0, help="And the newest of how many weeks.")
@click.option(
    "--full-every",
    type=click.IntRange(1, MOST_CHAIN),
    default=1,
    metavar="N",
    help="Each N-th of a VM is full; the others hold what was written since. [default: all]",
)
@click.option("--freeze", is_flag=True, help="Have guests with an agent freeze their file systems.")
@click.option("--replace", is_flag=True, help="Put all this in the place of what NAME says now.")
@output_option
@pass_context
def create(context: Context, /, **asked: Any) -> None:
    """Back up VMs to a storage pool, as NAME.

    `serve` backs up the VMs of --vm and deletes backups that --last, --daily and --weekly do not
    keep; without these three it deletes none. Backups that a person made stay.
    """
    made = context.act(backup_targets.SET_TARGET, backup_targets.SetTarget(**asked))
    item = made.answer
    print_item("BackupTarget", item, _text(item))
    finish(made)


@target.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List backup targets."""
    found = context.read(backup_targets.LIST_TARGETS, Nothing())
    print_list("BackupTarget", found.answer["items"], COLUMNS)


@target.command()
@click.argument("name", shell_complete=completed("backup-targets"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_context
def delete(context: Context, name: str, yes: bool) -> None:
    """Forget a backup target that no backup is on."""
    confirm(yes=yes)(f"delete backup target {name}?")
    context.act(backup_targets.DELETE_TARGET, backup_targets.OneTarget(name=name))
    say(f"backup target {name} is deleted")


@target.command()
@click.argument("name", shell_complete=completed("backup-targets"))
@output_option
@pass_context
def search(context: Context, name: str) -> None:
    """Enter backups that lie on the target NAME and that the ledger does not know.

    After the ledger was lost, or for backups that another fleet made.
    """
    with telling(lambda: "vgpumgr backup list"):
        found = context.act(backup_targets.SEARCH_TARGET, backup_targets.OneTarget(name=name))
    item = found.answer
    lines = [f"{counted(len(item['found']), 'backup')} found"]
    lines += [f"  {each['id'][:8]}  {each['vm']}" for each in item["found"]]
    lines += [f"not a backup: {each}" for each in item["unreadable"]]
    lines += [f"not asked: {each}" for each in item["silent"]]
    print_item("BackupSearch", item, "\n".join(lines))
