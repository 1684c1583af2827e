"""``vgpumgr layout``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands.layout_exchange import export, import_
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.files import load_layouts
from vgpumgr.cli.looking import refresh_option, refreshed, require_all_read
from vgpumgr.cli.output import list_options, output_option, print_item, say
from vgpumgr.cli.progress import changing
from vgpumgr.cli.questions import confirm
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.layout_plans import (
    as_declared,
    layout_plan_item,
    layout_plan_text,
    refused,
    to_change,
)
from vgpumgr.cli.views.outcomes import outcome_item, outcome_text
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.layout import LayoutPlan, LayoutSpec
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.running.outcome import Outcome

CHANGES_PENDING = 10


@click.group()
def layout() -> None:
    """Partitioning of GPUs: plan, apply, assert, export, import, show."""


_file = click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    help="YAML file with Layout documents; default: the layouts applied last.",
)


@layout.command()
@_file
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when something would change.")
@output_option
@pass_context
def plan(context: Context, file: str | None, detailed_exitcode: bool) -> None:
    """Show what apply would do; probes every host, changes nothing.

    Exit 4 when a GPU cannot be changed now: it is named, with the VMs that use it.
    """
    shown = _plan(context, _specs(context, file))
    _print_plan(shown)
    if detailed_exitcode and to_change(shown):
        raise click.exceptions.Exit(CHANGES_PENDING)


def _specs(context: Context, file: str | None) -> tuple[LayoutSpec, ...] | None:
    """The file's layouts; None, those that were applied last, without a file."""
    if file is not None:
        return load_layouts(context, file)
    if not context.app.ledger.layouts():
        raise UsageError("no GPU has a layout yet", next="vgpumgr layout apply -f FILE")
    return None


def _plan(context: Context, specs: Sequence[LayoutSpec] | None) -> LayoutPlan:
    context.app.require_hosts()
    return context.app.engine.layout_plan(specs)


def _print_plan(shown: LayoutPlan) -> None:
    print_item("LayoutPlan", layout_plan_item(shown), layout_plan_text(shown))
    if refused(shown):
        raise click.exceptions.Exit(Conflict.exit_status)
    require_all_read(shown.warnings)


@layout.command()
@_file
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@output_option
@pass_context
def apply(context: Context, file: str | None, yes: bool, dry_run: bool) -> None:
    """Partition GPUs as a file declares; without one, as before a host's reboot.

    Shows what will change and asks. Nothing is changed (exit 4) when a guest uses one of the
    GPUs: the VMs are named. Running it again finishes what was interrupted.
    """
    specs = _specs(context, file)
    ahead = _plan(context, specs)
    if dry_run:
        _print_plan(ahead)
        return
    changes = to_change(ahead)
    if changes and not refused(ahead):
        say(layout_plan_text(ahead))
        hosts = sorted({gpu.host for gpu in changes})
        confirm(yes=yes)(f"change {counted(len(changes), 'GPU')} on {_few(hosts)}?")
    try:
        with changing(context, len(changes)) as engine:
            done, outcome = engine.layout_apply(specs)
    except Conflict as error:
        error.next = error.next.replace(" -f FILE", f" -f {shlex.quote(file)}" if file else "")
        raise
    _print_outcome(done, outcome)
    outcome.raise_for_failure()
    require_all_read(done.warnings)


def _few(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _print_outcome(done: LayoutPlan, outcome: Outcome) -> None:
    text = outcome_text(outcome) if outcome.vms else layout_plan_text(done)
    print_item("LayoutApply", {**layout_plan_item(done), **outcome_item(outcome)}, text)


@layout.command("assert")
@_file
@output_option
@pass_context
def assert_(context: Context, file: str | None) -> None:
    """Compare the hosts with a file, or with what was applied last: exit 10 when they differ."""
    specs = load_layouts(context, file) if file else None
    context.app.require_hosts()
    shown = context.app.engine.layout_plan(specs)
    print_item("LayoutPlan", layout_plan_item(shown), _differences(shown, file))
    require_all_read(shown.warnings)
    if shown.gpus:
        raise click.exceptions.Exit(CHANGES_PENDING)


def _differences(shown: LayoutPlan, file: str | None) -> str:
    if file is None and not (shown.gpus or shown.unchanged or shown.warnings):
        return "no GPU has a layout"
    if not shown.gpus:
        return as_declared(shown)
    return layout_plan_text(shown)


@layout.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@refresh_option
@list_options
@pass_context
def show(context: Context, hosts: tuple[str, ...], refresh: bool) -> None:
    """Show declared and actual partitioning of GPUs, and the VM in each instance."""
    from vgpumgr.cli.views.layout_state import print_states

    known = [context.app.ledger.host(name).name for name in hosts]
    with refreshed(context, refresh, known):
        print_states(context, known)


for _command in (export, import_):
    layout.add_command(_command)
