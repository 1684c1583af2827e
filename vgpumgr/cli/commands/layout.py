"""The commands on layouts: plan, apply, assert, export, import and show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option, refreshed, require_all_read
from vgpumgr.cli.output import (
    Column,
    chosen_format,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
    table,
)
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import confirm, echo
from vgpumgr.cli.user_files import load_layouts
from vgpumgr.cli.views.ages import seen_text
from vgpumgr.cli.views.gpu_views import (
    SeenGpu,
    instance_text,
    layout_text,
    mig_text,
    mode_text,
    partitioning,
    seen_gpus,
    vfs_text,
)
from vgpumgr.cli.views.layout_views import (
    as_declared,
    goal_text,
    layout_plan_item,
    layout_plan_text,
    refused,
    to_change,
)
from vgpumgr.cli.views.outcome_views import outcome_text
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


def print_states(context: Context, hosts: Sequence[str]) -> None:
    """GPUs that can be partitioned, and those with a layout, of these hosts (all without)."""
    seen = [
        each
        for each in seen_gpus(context)
        if (not hosts or each.gpu.host in hosts) and _partitionable(each)
    ]
    items = [_item(each) for each in seen]
    if chosen_format().name != "table" or chosen_format().columns or not items:
        print_list("LayoutState", items, COLUMNS)
        return
    shown = [column for column in COLUMNS if not column.wide]
    head = [column.title for column in shown]
    lines = table([head, *([c.text(item) for c in shown] for item in items)]).splitlines()
    echo(lines[0])
    for line, each, item in zip(lines[1:], seen, items, strict=True):
        echo(line)
        for more in _below(each, item):
            echo(f"    {more}")


def _partitionable(seen: SeenGpu) -> bool:
    facts = seen.gpu.facts
    return bool(seen.layout or facts.mig or facts.sriov_total or facts.vfs)


def _item(seen: SeenGpu) -> dict[str, Any]:
    facts = seen.gpu.facts
    return {
        "name": seen.gpu.id,
        "host": seen.gpu.host,
        "device": facts.device,
        "model": facts.model,
        **seen.look,
        **partitioning(seen),
    }


def _below(seen: SeenGpu, item: dict[str, Any]) -> Iterator[str]:
    if seen.layout is not None:
        yield f"declared  {goal_text(seen.layout.goal)}"
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
    text = outcome_text(outcome_item(outcome)) if outcome.vms else layout_plan_text(done)
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
    pass

    known = [context.app.ledger.host(name).name for name in hosts]
    with refreshed(context, refresh, known):
        print_states(context, known)


for _command in (export, import_):
    layout.add_command(_command)
