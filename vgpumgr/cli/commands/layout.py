"""The commands on layouts: plan, apply, assert, export, import and show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option, require_all_read
from vgpumgr.cli.output import (
    Column,
    chosen_format,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import changing, finish
from vgpumgr.cli.terminal import confirm, echo
from vgpumgr.cli.user_files import load_layouts
from vgpumgr.cli.views.ages import seen_text
from vgpumgr.cli.views.gpu_views import (
    instance_text,
    layout_text,
    mig_text,
    mode_text,
    vfs_text,
)
from vgpumgr.cli.views.layout_views import (
    as_declared,
    goal_text,
    layout_plan_text,
    refused,
    to_change,
)
from vgpumgr.cli.views.outcome_views import outcome_text
from vgpumgr.cli.views.reports import report_lines
from vgpumgr.endpoints.layout_items import LayoutPlanItem, layout_plan_item
from vgpumgr.endpoints.layouts import SHOW_LAYOUTS, LayoutStateFilter, LayoutStateItem
from vgpumgr.endpoints.outcomes import outcome_item
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.layout import LayoutPlan, LayoutSpec

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome


COLUMNS = (
    Column("HOST", "host"),
    Column("DEVICE", "device"),
    Column("MODEL", "model"),
    Column("LAYOUT", lambda gpu: layout_text(gpu["layout"])),
    Column("MIG", lambda gpu: mig_text(gpu["mig"])),
    Column("VFS", lambda gpu: vfs_text(gpu["vfs"])),
    Column("MODE", lambda gpu: mode_text(gpu["mixed_size"])),
    Column("SCHEDULER", "scheduler"),
    Column("SEEN", seen_text),
    Column("ID", "name", wide=True),
)


def print_states(items: Sequence[LayoutStateItem]) -> None:
    """GPUs with what each is declared to have, and the VM in each instance."""
    if chosen_format().name != "table" or chosen_format().columns or not items:
        print_list("LayoutState", items, COLUMNS)
        return
    for line in report_lines(items, COLUMNS, _below):
        echo(line)


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    if item["layout"] is not None:
        yield f"declared  {goal_text(item['layout']['declared'])}"
    for each in (item["mig"] or {}).get("instances") or ():
        yield instance_text(each)


FOREIGN = ("mig-parted", "vgpu-device-manager")


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@click.option(
    "--format",
    "tool",
    type=click.Choice(["vgpumgr", *FOREIGN]),
    default="vgpumgr",
    show_default=True,
    help="Format of the file to write.",
)
@output_option
@pass_context
def export(context: Context, hosts: tuple[str, ...], tool: str) -> None:
    """Print how hosts (default: all) are partitioned now, as a file to apply."""
    from vgpumgr.cli.layout_files import print_foreign, print_ours

    context.app.require_hosts()
    found = context.app.engine.layout_export(hosts)
    if tool == "vgpumgr":
        print_ours(found)
    else:
        print_foreign(tool, found, context.app.ledger.gpus())
    records = [each for each in context.app.ledger.hosts() if not hosts or each.name in hosts]
    require_all_read(tuple(f"{h.name}: {h.last_error}" for h in records if h.last_error))


@click.command("import")
@click.argument("file")
@click.option(
    "--format",
    "tool",
    type=click.Choice(FOREIGN),
    help="Format of the file; default: detected by its keys.",
)
@click.option("--config", default="", help="The configuration to take, if the file has several.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Host that the layout is for; may be repeated.",
    shell_complete=completed("hosts"),
)
@output_option
@pass_context
def import_(
    context: Context, file: str, tool: str | None, config: str, hosts: tuple[str, ...]
) -> None:
    """Convert a file of mig-parted or vgpu-device-manager into a Layout and print it.

    Output of "nvidia-smi mig -lgi" on a manually partitioned host works, too. Device numbers in
    the file mean GPUs of one host: name it with --host.
    """
    from vgpumgr.cli.layout_files import from_foreign, print_ours

    print_ours([from_foreign(context, file, tool, config, hosts)])


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


def _plan(context: Context, specs: Sequence[LayoutSpec] | None) -> LayoutPlanItem:
    context.app.require_hosts()
    return layout_plan_item(context.app.engine.layout_plan(specs))


def _print_plan(shown: LayoutPlanItem) -> None:
    print_item("LayoutPlan", shown, layout_plan_text(shown))
    if refused(shown):
        raise click.exceptions.Exit(Conflict.exit_status)
    require_all_read(tuple(shown["warnings"]))


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
        hosts = sorted({gpu["host"] for gpu in changes})
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
    text = (
        outcome_text(outcome_item(outcome))
        if outcome.vms
        else layout_plan_text(layout_plan_item(done))
    )
    print_item("LayoutApply", {**layout_plan_item(done), **outcome_item(outcome)}, text)


@layout.command("assert")
@_file
@output_option
@pass_context
def assert_(context: Context, file: str | None) -> None:
    """Compare the hosts with a file, or with what was applied last: exit 10 when they differ."""
    specs = load_layouts(context, file) if file else None
    context.app.require_hosts()
    shown = layout_plan_item(context.app.engine.layout_plan(specs))
    print_item("LayoutPlan", shown, _differences(shown, file))
    require_all_read(tuple(shown["warnings"]))
    if shown["gpus"]:
        raise click.exceptions.Exit(CHANGES_PENDING)


def _differences(shown: LayoutPlanItem, file: str | None) -> str:
    if file is None and not (shown["gpus"] or shown["unchanged"] or shown["warnings"]):
        return "no GPU has a layout"
    if not shown["gpus"]:
        return as_declared(shown)
    return layout_plan_text(shown)


@layout.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@refresh_option
@list_options
@pass_context
def show(context: Context, hosts: tuple[str, ...], refresh: bool) -> None:
    """Show declared and actual partitioning of GPUs, and the VM in each instance."""
    found = context.read(SHOW_LAYOUTS, LayoutStateFilter(hosts=hosts, refresh=refresh))
    print_states(found.answer["items"])
    finish(found)


for _command in (export, import_):
    layout.add_command(_command)
