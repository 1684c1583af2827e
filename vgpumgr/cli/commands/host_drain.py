"""The commands `host drain`, `undrain` and `maintenance`: a host emptied and out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import span
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.views.host_views import drain_text, drained_text
from vgpumgr.cli.views.outcome_views import with_users_option
from vgpumgr.endpoints import host_drains, hosts

if TYPE_CHECKING:
    from vgpumgr.endpoints.endpoint import Result
    from vgpumgr.endpoints.host_items import HostItem
    from vgpumgr.endpoints.shapes import ItemList


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option(
    "--to",
    multiple=True,
    metavar="HOST",
    help="Move them only to this host; may be repeated.",
    shell_complete=completed("hosts"),
)
@click.option("--cold", is_flag=True, help="Stop, move and start VMs that cannot move running.")
@with_users_option
@click.option(
    "--timeout",
    type=click.FloatRange(0, 7 * 86400),
    help="Seconds for each VM: live, give up after; cold, how long the guest may take (60).",
)
@click.option(
    "--logoff-within",
    callback=span,
    metavar="TIME",
    help="Do not move floating desktops: give their users this long (30m, 4h) to log off.",
)
@click.option("--dry-run", is_flag=True, help="Show the target of each VM and stop.")
@output_option
@pass_context
def drain(
    context: Context,
    name: str,
    to: tuple[str, ...],
    cold: bool,
    with_users: bool,
    timeout: float | None,
    logoff_within: float | None,
    dry_run: bool,
) -> None:
    """Cordon a host and move every VM away from it; the same command resumes.

    A VM with an active user that cannot move live stays (exit 4, the user is named):
    --logoff-within waits for the user, --with-users does not.
    """
    asked = host_drains.HostDrain(
        name=name,
        to=to,
        cold=cold,
        with_users=with_users,
        timeout_s=timeout,
        logoff_within_s=logoff_within,
    )
    if dry_run:
        plan = context.read(host_drains.PLAN_DRAIN, asked)
        print_item("DrainPlan", plan.answer, drain_text(plan.answer))
        finish(plan)
        return
    drained = carry_out(context, host_drains.DRAIN_HOST, asked)
    print_item("Drain", drained.answer, drained_text(drained.answer))
    finish(drained)


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def undrain(context: Context, names: tuple[str, ...]) -> None:
    """End a drain: hosts accept VMs again; VMs that moved away stay away."""
    say_again(context.act(host_drains.UNDRAIN_HOSTS, hosts.NamedHosts(names=names)))


def say_again(done: Result[ItemList[HostItem]]) -> None:
    """A line for each host that takes VMs again."""
    for each in done.answer["items"]:
        say(f"{each['name']}: accepts VMs again")
    finish(done)


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option(
    "--off",
    is_flag=True,
    help="End maintenance: compare the host with the ledger, then let it accept VMs again.",
)
@output_option
@pass_context
def maintenance(context: Context, name: str, off: bool) -> None:
    """Put an empty host into maintenance: vgpumgr does not touch it, and it may be off."""
    asked = hosts.OneHost(name=name)
    if not off:
        context.act(host_drains.ENTER_MAINTENANCE, asked)
        say(f"{name}: in maintenance")
        return
    for drift in context.act(host_drains.LEAVE_MAINTENANCE, asked).answer["drifts"]:
        say(f"{name}: {drift}")
    say(f"{name}: accepts VMs again")
