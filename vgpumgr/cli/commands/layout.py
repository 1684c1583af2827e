"""The commands on layouts: plan, apply, assert, export, import and show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.layout_files import print_ours
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import (
    Column,
    chosen_format,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm, echo
from vgpumgr.cli.user_files import document_text, say_others
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
from vgpumgr.endpoints import layout_exchange, layout_plans
from vgpumgr.endpoints.layout_items import LayoutPlanItem
from vgpumgr.endpoints.layouts import SHOW_LAYOUTS, LayoutStateFilter, LayoutStateItem
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.endpoints.endpoint import Result

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
def export(
    context: Context,
    hosts: tuple[str, ...],
    tool: Literal["vgpumgr", "mig-parted", "vgpu-device-manager"],
) -> None:
    """Print how hosts (default: all) are partitioned now, as a file to apply."""
    found = context.read(
        layout_exchange.EXPORT_LAYOUTS, layout_exchange.LayoutExport(hosts=hosts, format=tool)
    )
    if tool == layout_exchange.OURS:
        print_ours(found.answer["documents"])
    else:
        _say_left_out(found.answer["left_out"])
        echo(found.answer["text"], nl=False)
    finish(found)


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
    context: Context,
    file: str,
    tool: Literal["mig-parted", "vgpu-device-manager"] | None,
    config: str,
    hosts: tuple[str, ...],
) -> None:
    """Convert a file of mig-parted or vgpu-device-manager into a Layout and print it.

    Output of "nvidia-smi mig -lgi" on a manually partitioned host works, too. Device numbers in
    the file mean GPUs of one host: name it with --host.
    """
    given = document_text(file)
    asked = layout_exchange.LayoutImport(
        text=given.text, source=given.source, format=tool, configuration=config, hosts=hosts
    )
    found = context.read(layout_exchange.IMPORT_LAYOUTS, asked).answer
    _say_left_out(found["left_out"])
    if not hosts:
        say(f"it names no host: add hosts: or host_labels: ({API_VERSION}), or give --host")
    print_ours(found["documents"])


def _say_left_out(sentences: Sequence[str]) -> None:
    for each in sentences:
        say(f"note: {each}")


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
    shown = context.read(layout_plans.PLAN_LAYOUTS, _documents(file))
    _print_plan(shown)
    if detailed_exitcode and to_change(shown.answer):
        raise click.exceptions.Exit(CHANGES_PENDING)


def _documents(file: str | None) -> layout_plans.LayoutDocuments:
    """The file's; without a file those that were applied last."""
    if file is None:
        return layout_plans.LayoutDocuments()
    given = document_text(file)
    say_others(given.text, "Layout")
    return layout_plans.LayoutDocuments(text=given.text, source=given.source)


def _print_plan(shown: Result[LayoutPlanItem]) -> None:
    print_item("LayoutPlan", shown.answer, layout_plan_text(shown.answer))
    if refused(shown.answer):
        raise click.exceptions.Exit(Conflict.exit_status)
    finish(shown)


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
    asked = _documents(file)
    ahead = context.read(layout_plans.PLAN_LAYOUTS, asked)
    if dry_run:
        _print_plan(ahead)
        return
    changes = to_change(ahead.answer)
    if changes and not refused(ahead.answer):
        say(layout_plan_text(ahead.answer))
        hosts = sorted({gpu["host"] for gpu in changes})
        confirm(yes=yes)(f"change {counted(len(changes), 'GPU')} on {_few(hosts)}?")
    try:
        done = carry_out(context, layout_plans.APPLY_LAYOUTS, asked)
    except Conflict as error:
        error.next = error.next.replace(" -f FILE", f" -f {shlex.quote(file)}" if file else "")
        raise
    item = done.answer
    print_item("LayoutApply", item, outcome_text(item) if item["vms"] else layout_plan_text(item))
    finish(done)


def _few(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


@layout.command("assert")
@_file
@output_option
@pass_context
def assert_(context: Context, file: str | None) -> None:
    """Compare the hosts with a file, or with what was applied last: exit 10 when they differ."""
    shown = context.read(layout_plans.ASSERT_LAYOUTS, _documents(file))
    print_item("LayoutPlan", shown.answer, _differences(shown.answer, file))
    finish(shown)
    if shown.answer["gpus"]:
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
