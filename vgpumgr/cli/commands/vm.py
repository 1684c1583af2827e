"""The commands on VMs: list, show, xml, start, stop, reboot and migrate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.console import vm_connect
from vgpumgr.cli.commands.vm_create import create, delete
from vgpumgr.cli.options import Selector, matches, refresh_option, refreshed, selector_option
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
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.views.ages import age, seen_text
from vgpumgr.cli.views.outcome_views import print_outcome, with_users_option
from vgpumgr.cli.views.queue_views import waiting_line
from vgpumgr.cli.views.vm_views import part_text, power_text, vm_items
from vgpumgr.model.formats import format_mib

if TYPE_CHECKING:
    from vgpumgr.engine.migration.move_plan import MovePlan
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.engine.use_cases import Engine


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
    type=click.FloatRange(0, 7 * 86400),
    help="Seconds: live, give up after; cold, how long the guest may take to power off (60).",
)
@with_users_option
@click.option("--dry-run", is_flag=True, help="Show every check and stop.")
@output_option
@pass_context
def migrate(
    context: Context,
    name: str,
    to: str,
    cold: bool,
    timeout: float | None,
    with_users: bool,
    dry_run: bool,
) -> None:
    """Move a VM to another host: live where its devices can, or cold."""
    ledger = context.app.ledger
    ledger.vm(name)
    ledger.host(to)
    if dry_run:
        plan = context.app.engine.move_plan(
            name, to, cold=cold, timeout_s=timeout, with_users=with_users
        )
        _show_move(plan)
        return
    users = context.app.engine.users_on([name]) if cold and with_users else ()
    with changing(context, 1) as engine:
        outcome = engine.migrate(name, to, cold=cold, timeout_s=timeout, with_users=with_users)
    print_outcome(outcome, users)


def _show_move(plan: MovePlan) -> None:
    """Every check, and the refusal that the command would end with."""
    from vgpumgr.cli.views.move_views import move_item, move_text
    from vgpumgr.engine.migration.move_plan import refuse

    print_item("Move", move_item(plan), move_text(plan))
    refuse(plan)


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
    Column("DEVICES", lambda vm: ",".join(gpu["device"] for gpu in vm["gpus"]), wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("ID", "id", wide=True),
)


@click.group()
def vm() -> None:
    """VMs: create, list, show, xml, start, stop, reboot, connect, migrate, delete."""


for command in (vm_connect, create, delete, migrate):
    vm.add_command(command)


@vm.command("list")
@selector_option
@refresh_option
@list_options
@pass_context
def list_(context: Context, selector: Selector, refresh: bool) -> None:
    """List VMs, foreign domains included."""
    with refreshed(context, refresh):
        items = [item for item in vm_items(context) if matches(item["labels"], selector)]
        print_list("VM", items, COLUMNS)
    if waiting := waiting_line(context.app.ledger.queue()):
        say(waiting)


@vm.command()
@click.argument("name", shell_complete=completed("vms"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one VM."""
    ledger = context.app.ledger
    found = ledger.vm(name)
    item = next(item for item in vm_items(context) if item["id"] == found.id)
    text = fields(
        [
            ("Name", item["name"]),
            ("Id", item["id"]),
            ("Host", item["host"]),
            ("State", _state_text(item)),
            ("Moves", _moves_text(context, found.id)),
            ("Power", _power_text(item)),
            ("vCPUs", item["vcpus"]),
            ("Memory", format_mib(item["memory_mib"])),
            ("NUMA node", item["numa_node"]),
            ("Pinned CPUs", ",".join(map(str, item["cpus"]))),
            *(("GPU", part_text(part)) for part in item["gpus"]),
            *(("Volume", f"{v['pool']}/{v['name']}") for v in item["volumes"]),
            ("Labels", ", ".join(f"{k}={v}" for k, v in item["labels"].items())),
            ("Tenant", item["tenant"]),
        ]
    )
    print_item("VM", item, text)


def _power_text(item: dict[str, Any]) -> str:
    """``running (seen 5s ago)``; what is old or not known says so itself."""
    if item["observed_at"] is None:
        return str(item["power"])
    if item["stale"]:
        return f"{power_text(item)}: {item['host']} is {item['stale_why']}"
    return f"{item['power']} (seen {age(item['observed_at'])} ago)"


def _moves_text(context: Context, vm_id: str) -> str:
    """``to gpu2 when ada logs off``; empty where no move of it waits."""
    waits = (each for each in context.app.ledger.logoff_moves() if each.vm_id == vm_id)
    return "".join(f"to {each.host} when {each.user} logs off ({each.why})" for each in waits)


def _state_text(item: dict[str, Any]) -> str:
    """``migrating to gpu2``; of a VM that does not run, what that means."""
    to, status = item["moving_to"], item["status"]
    if to == item["host"]:
        return f"moving to another GPU of {to}"
    if to:
        return f"{status} to {to}"
    if status == "stopped":
        return "stopped (by request; it keeps its GPU parts)" if item["gpus"] else "stopped"
    if status == "down":
        return f"down (should be running: vgpumgr vm start {item['name']})"
    return str(status)


@vm.command()
@click.argument("name", shell_complete=completed("vms"))
@pass_context
def xml(context: Context, name: str) -> None:
    """Print the domain XML from libvirt on the host."""
    echo(context.app.engine.domain_xml(name), nl=False)


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@output_option
@pass_context
def start(context: Context, names: tuple[str, ...]) -> None:
    """Start VMs; GPU parts that the host lost come back first, with the same identity."""
    _power(context, names, lambda engine, each: engine.start(each))


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--force", is_flag=True, help="Power off at once, without asking the guest.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86400),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the guest.",
)
@click.option(
    "--release-gpu",
    is_flag=True,
    help="Release GPU parts, CPUs and memory; disks are kept, and `vm start` allocates again.",
)
@with_users_option
@output_option
@pass_context
def stop(
    context: Context,
    names: tuple[str, ...],
    force: bool,
    timeout: float,
    release_gpu: bool,
    with_users: bool,
) -> None:
    """Ask the guests to power off. They keep their GPU parts, unless released.

    A desktop that a user works on is refused (exit 4, the user is named) without --with-users.
    """
    if release_gpu:
        from vgpumgr.engine.reservation.shelf_reservations import StopManner

        wanted = StopManner(force=force, timeout_s=timeout)
        _power(context, names, lambda engine, each: engine.shelve(each, wanted))
        return
    _power(
        context,
        names,
        lambda engine, each: engine.stop_vms(
            each, force=force, timeout_s=timeout, with_users=with_users
        ),
        users=with_users,
    )


@vm.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--force", is_flag=True, help="Power off and on, without asking the guest.")
@with_users_option
@output_option
@pass_context
def reboot(context: Context, names: tuple[str, ...], force: bool, with_users: bool) -> None:
    """Reboot VMs; one that a user works on only with --with-users (exit 4)."""
    _power(
        context,
        names,
        lambda engine, each: engine.reboot(each, force=force, with_users=with_users),
        users=with_users,
    )


def _power(
    context: Context,
    names: Sequence[str],
    act: Callable[[Engine, Sequence[str]], Outcome],
    *,
    users: bool = False,
) -> None:
    """``users``: those at work there are cut off by it."""
    once = tuple(dict.fromkeys(names))
    there = context.app.engine.users_on(once) if users else ()
    with changing(context, len(once)) as engine:
        outcome = act(engine, once)
    print_outcome(outcome, there)
