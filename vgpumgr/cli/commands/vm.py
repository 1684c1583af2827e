"""The commands on VMs: list, show, explain-performance, xml, start, stop, rename, …"""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.late_group import LateGroup
from vgpumgr.cli.options import Selector, guest_timeout_option, refresh_option, selector_option
from vgpumgr.cli.output import (
    Column,
    Item,
    list_options,
    output_option,
    print_item,
    print_list,
)
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.views.ages import seen_text
from vgpumgr.cli.views.move_views import move_text
from vgpumgr.cli.views.outcome_views import print_outcome_result, with_users_option
from vgpumgr.cli.views.vm_views import performance_text, power_text, vm_text
from vgpumgr.endpoints import vms
from vgpumgr.endpoints.performance import EXPLAIN_PERFORMANCE, ExplainPerformance
from vgpumgr.endpoints.vm_moves import LONGEST_S, MOVE_VM, PLAN_MOVE, MoveVm
from vgpumgr.endpoints.vm_names import RENAME_VM, RenameVm
from vgpumgr.model.formats import format_mib


@click.command()
@click.argument("name", shell_complete=completed("vms"))
@click.option(
    "--to",
    required=True,
    metavar="HOST",
    help="The host to move it to.",
    shell_complete=completed("hosts"),
)
@click.option("--cold", is_flag=True, help="Stop it, move it, start it again.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, LONGEST_S),
    help="Seconds: live, give up after; cold, how long the guest may take to power off (60).",
)
@with_users_option
@click.option("--dry-run", is_flag=True, help="Show every check and stop.")
@output_option
@pass_context
def migrate(context: Context, /, *, dry_run: bool, **asked: Any) -> None:
    """Move a VM to another host: live where its devices can, or cold."""
    if dry_run:
        plan = context.read(PLAN_MOVE, MoveVm(**asked))
        print_item("Move", plan.answer, move_text(plan.answer))
        finish(plan)
    else:
        print_outcome_result(carry_out(context, MOVE_VM, MoveVm(**asked)))


def _profiles(vm: Item) -> str:
    """``A40-8Q ×2,T4-4Q``."""
    counts = Counter(gpu["profile"] for gpu in vm["gpus"])
    return ",".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())


COLUMNS = (
    Column("NAME", "name"),
    Column("HOST", "host"),
    Column("STATE", "status"),
    Column("POWER", power_text),
    Column("GPUS", _profiles),
    Column("VCPUS", "vcpus"),
    Column("MEMORY", lambda vm: format_mib(vm["memory_mib"])),
    Column("SEEN", seen_text),
    Column("GUEST", lambda vm: vm["guest"]["phase"] if vm["guest"] else "-", wide=True),
    Column("DEVICES", lambda vm: ",".join(gpu["device"] for gpu in vm["gpus"]), wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("ID", "id", wide=True),
)


@click.group(
    cls=LateGroup,
    late={
        "clone": "vm_create:clone",
        "connect": "console:vm_connect",
        "console": "console:vm_console",
        "create": "vm_create:create",
        "delete": "vm_create:delete",
        "snapshot": "vm_snapshot:snapshot",
    },
)
def vm() -> None:
    """VMs: create, clone, list, show, start, stop, reboot, rename, snapshot, console, migrate, …"""


vm.add_command(migrate)


@vm.command("explain-performance")
@click.argument("name", shell_complete=completed("vms"))
@click.option("--refresh", is_flag=True, help="Ask its host for figures now.")
@output_option
@pass_context
def explain_performance(context: Context, name: str, refresh: bool) -> None:
    """Show what may make a VM slow: evidence first, then what to type.

    The causes come first: what figures show at work. What limits the VM and no figure shows to
    bite is possible; what nothing tells is unknown, not ruled out.
    """
    found = context.read(EXPLAIN_PERFORMANCE, ExplainPerformance(name=name, refresh=refresh))
    print_item("VmPerformance", found.answer, performance_text(found.answer))
    finish(found)


@vm.command("list")
@selector_option
@refresh_option
@list_options
@pass_context
def list_(context: Context, selector: Selector, refresh: bool) -> None:
    """List VMs, foreign domains included."""
    labels = tuple(f"{key}={value}" for key, value in selector)
    found = context.read(vms.LIST_VMS, vms.VmFilter(labels=labels, refresh=refresh))
    print_list("VM", found.answer["items"], COLUMNS)
    finish(found)


@vm.command()
@click.argument("name", shell_complete=completed("vms"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one VM."""
    item = context.read(vms.SHOW_VM, vms.OneVm(name=name)).answer
    print_item("VM", item, vm_text(item))


@vm.command()
@click.argument("name", shell_complete=completed("vms"))
@pass_context
def xml(context: Context, name: str) -> None:
    """Print the domain XML from libvirt on the host."""
    echo(context.read(vms.SHOW_XML, vms.OneVm(name=name)).answer["xml"], nl=False)


@vm.command()
@click.argument("name", shell_complete=completed("vms"))
@click.argument("new_name")
@click.option("--restart", is_flag=True, help="Stop it if it runs, and start it again.")
@guest_timeout_option
@with_users_option
@output_option
@pass_context
def rename(context: Context, /, **asked: Any) -> None:
    """Give the VM NAME, which is off, the name NEW_NAME.

    UUID, MAC addresses, disks, snapshots, backups and GPU parts stay its own.
    """
    print_outcome_result(carry_out(context, RENAME_VM, RenameVm(**asked)))


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@output_option
@pass_context
def start(context: Context, names: tuple[str, ...]) -> None:
    """Start VMs; GPU parts that the host lost come back first, with the same identity."""
    print_outcome_result(carry_out(context, vms.START_VMS, vms.StartVms(names=names)))


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--force", is_flag=True, help="Power off at once, without asking the guest.")
@guest_timeout_option
@click.option(
    "--release-gpu",
    is_flag=True,
    help="Release GPU parts, CPUs and memory; disks are kept, and `vm start` allocates again.",
)
@with_users_option
@output_option
@pass_context
def stop(context: Context, /, **asked: Any) -> None:
    """Ask the guests to power off. They keep their GPU parts, unless released.

    A desktop that a user works on is refused (exit 4, the user is named) without --with-users.
    """
    print_outcome_result(carry_out(context, vms.STOP_VMS, vms.StopVms(**asked)))


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--force", is_flag=True, help="Power off and on, without asking the guest.")
@with_users_option
@output_option
@pass_context
def reboot(context: Context, /, **asked: Any) -> None:
    """Reboot VMs; one that a user works on only with --with-users (exit 4)."""
    print_outcome_result(carry_out(context, vms.REBOOT_VMS, vms.RebootVms(**asked)))
