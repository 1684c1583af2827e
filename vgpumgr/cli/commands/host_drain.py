"""The commands `host drain`, `undrain` and `maintenance`: a host emptied and out of use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import span
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.views.host_views import drain_item, drain_text, drained_item, drained_text
from vgpumgr.cli.views.outcome_views import with_users_option
from vgpumgr.model.errors import Interrupted, PartlyDone
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.host_drain import DrainReport, DrainTarget


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
    from vgpumgr.engine.hosts.host_drain import DrainRequest

    ledger = context.app.ledger
    for each in (name, *to):
        ledger.host(each)
    by = None if logoff_within is None else time.time() + logoff_within
    wanted = DrainRequest(
        host=name, to=to, cold=cold, with_users=with_users, timeout_s=timeout, logoff_by=by
    )
    if dry_run:
        choices = context.app.engine.drain_plan(wanted)
        print_item("Drain", drain_item(name, choices), drain_text(name, choices))
        _refuse([each for each in choices if each.move is None], name)
        return
    with changing(context, sum(vm.host == name for vm in ledger.vms())) as engine:
        drained = engine.drain(wanted)
    print_item("Drain", drained_item(drained), drained_text(drained))
    if context.app.stop.is_set():
        raise _interrupted(drained)
    _raise(drained)


def _interrupted(drained: DrainReport) -> Interrupted:
    """What Ctrl-C left: perhaps a move that waits, and a host that is cordoned and not empty."""
    name, move = drained.host, ""
    if drained.outcome.interrupted:
        try:
            drained.outcome.raise_for_failure()
        except Interrupted as error:
            move = f"{error.next}; then "
    return Interrupted(
        f"interrupted: {counted(len(drained.outcome.done), 'VM')} moved away from {name}",
        why=f"{name} stays cordoned, and draining has stopped",
        next=f"{move}vgpumgr host drain {name} resumes, vgpumgr host undrain {name} ends it",
    )


def _raise(drained: DrainReport) -> None:
    """A move that failed is told like any other."""
    _refuse(drained.staying, drained.host, ", which stays cordoned and draining")
    drained.outcome.raise_for_failure()


def _refuse(choices: Sequence[DrainTarget], name: str, more: str = "") -> None:
    staying = [each for each in choices if not each.leaves]
    users = [each.user for each in staying if each.user is not None and each.cut_off]
    if users and len(users) == len(staying):
        from vgpumgr.engine.migration.users_at_work import users_cut_off

        raise users_cut_off(users, next=staying[0].next)
    if staying:
        raise PartlyDone(
            f"{counted(len(staying), 'VM')} cannot leave {name}{more}",
            why="; ".join(f"{each.vm.name}: {each.why}" for each in staying[:5]),
            next=staying[0].next,
        )


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def undrain(context: Context, names: tuple[str, ...]) -> None:
    """End a drain: hosts accept VMs again; VMs that moved away stay away."""
    take_again(context, names)


def take_again(context: Context, names: tuple[str, ...]) -> None:
    """Place VMs there again; refused in maintenance."""
    for name in names:
        context.app.ledger.host(name)
    for name in names:
        context.app.engine.undrain(name)
        say(f"{name}: accepts VMs again")


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
    context.app.ledger.host(name)
    if not off:
        context.app.engine.enter_maintenance(name)
        say(f"{name}: in maintenance")
        return
    report = context.app.engine.leave_maintenance(name)
    for drift in report.drifts:
        say(f"{name}: {drift.text}")
    say(f"{name}: accepts VMs again")
