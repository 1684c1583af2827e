"""The commands on whole files of VMs and pools: apply, plan, diff and delete."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.pool import apply_pools, delete_pools, plan_pools
from vgpumgr.cli.options import require_all_read
from vgpumgr.cli.output import output_option, print_item, say, tell_people
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.user_files import (
    file_option,
    load_documents,
    require_no_strangers,
    vms_of,
    what_stays,
)
from vgpumgr.cli.views.layout_views import layout_plan_text
from vgpumgr.cli.views.outcome_views import outcome_text
from vgpumgr.cli.views.plan_views import plan_item, plan_text, say_surplus
from vgpumgr.endpoints.layout_items import layout_plan_item
from vgpumgr.endpoints.outcomes import outcome_item
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.errors import Conflict, NoPlacement, PartlyDone, StillRunning
from vgpumgr.model.formats import counted, spanned
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.queue import QueueState

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.spec import Documents


CHANGES_PENDING = 10


@click.command("plan")
@file_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when something would change.")
@output_option
@pass_context
def plan(context: Context, file: str, detailed_exitcode: bool) -> None:
    """Show what apply would do; probes every host, changes nothing."""
    documents = _documents(context, file)
    if documents.pools:
        _exit_if(plan_pools(context, documents, file) and detailed_exitcode)
        return
    shown, layouts = make_plan(context, documents, file)
    _print_plan(file, shown, layouts)
    if shown.unplaced:
        raise click.exceptions.Exit(NoPlacement.exit_status)
    require_all_read(shown.warnings)
    if detailed_exitcode and (shown.changes or layouts.gpus):
        raise click.exceptions.Exit(CHANGES_PENDING)


@click.command("diff")
@file_option
@output_option
@pass_context
def diff(context: Context, file: str) -> None:
    """Compare a file with the fleet: exit 0 when it has converged, 10 when it has not."""
    documents = _documents(context, file)
    if documents.pools:
        _exit_if(plan_pools(context, documents, file))
        return
    shown, layouts = make_plan(context, documents, file)
    _print_plan(file, shown, layouts)
    require_all_read(shown.warnings)
    if shown.changes or shown.unplaced or layouts.gpus:
        raise click.exceptions.Exit(CHANGES_PENDING)


def _documents(context: Context, file: str) -> Documents:
    """The VMs of a file for `apply`; UsageError where something in the file would be dropped."""
    documents = load_documents(context, file)
    require_no_strangers(context, documents, file)
    return documents


def _exit_if(changes: bool) -> None:
    if changes:
        raise click.exceptions.Exit(CHANGES_PENDING)


def make_plan(context: Context, documents: Documents, file: str) -> tuple[Plan, LayoutPlan]:
    """Probe, plan: the VMs of the file, and its layouts if it has any."""
    vms = vms_of(documents, file)
    context.app.require_hosts()
    layouts = _layouts(context, documents)
    return context.app.engine.plan(vms), layouts


def _layouts(context: Context, documents: Documents) -> LayoutPlan:
    if not documents.layouts:
        return LayoutPlan()
    return context.app.engine.layout_plan(documents.layouts)


def _print_plan(file: str, shown: Plan, layouts: LayoutPlan, *, partial: bool = False) -> None:
    item, text = plan_item(shown), plan_text(shown, file=file, partial=partial)
    if layouts != LayoutPlan():
        item["layouts"] = layout_plan_item(layouts)
    if layouts.gpus:
        hint = f"  next: {layout_command(file)}"
        text = "\n".join([layout_plan_text(layout_plan_item(layouts)), hint, text])
    print_item("Plan", item, text)


@click.command("apply")
@file_option
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--partial", is_flag=True, help="Create the VMs that fit, even if others do not.")
@click.option("--restart", is_flag=True, help="Allow stopping VMs for changes that need it.")
@output_option
@pass_context
def apply(context: Context, file: str, dry_run: bool, partial: bool, restart: bool) -> None:
    """Create and run the VMs of a file wherever they fit. Pools of a file are recorded, and `serve`
    creates their desktops.

    All VMs are reserved, or none (exit 5). Running it again resumes an interrupted run, and
    changes nothing when all VMs have converged. Layouts in the file must be applied already (exit
    4 otherwise): only `layout apply` partitions GPUs, and it asks.
    """
    documents = _documents(context, file)
    if documents.pools:
        work = plan_pools if dry_run else apply_pools
        work(context, documents, file)
        return
    if dry_run:
        shown, layouts = make_plan(context, documents, file)
        _print_plan(file, shown, layouts, partial=partial)
        if shown.unplaced and not partial:
            raise click.exceptions.Exit(NoPlacement.exit_status)
        require_all_read(shown.warnings)
        return
    vms = vms_of(documents, file)
    context.app.require_hosts()
    _require_layouts(file, _layouts(context, documents))
    try:
        with changing(context, len(vms)) as engine:
            done, outcome = engine.apply(vms, partial=partial, restart=restart, show=_PlanShown())
    except (Conflict, NoPlacement) as error:
        error.next = error.next.replace("-f FILE", f"-f {shlex.quote(file)}")
        raise
    _print_outcome(done, outcome)
    say_surplus(context, vms)
    _say_waiting(context, outcome)
    outcome.raise_for_failure()
    if done.unplaced:
        raise PartlyDone(
            f"{len(done.unplaced)} of {len(vms)} VMs could not be placed",
            why=", ".join(refused.request.name for refused in done.unplaced[:10]),
            next=explain_command(file),
        )
    require_all_read(done.warnings)


def _say_waiting(context: Context, outcome: Outcome) -> None:
    """Of VMs that were refused everywhere those that wait for another turn of the queue."""
    refused = [vm.vm for vm in outcome.vms if vm.error is not None]
    if not refused:
        return
    rows = context.app.ledger.queue()
    waiting = {row.name for row in rows if row.state is QueueState.WAITING and row.name in refused}
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        say(f"{counted(len(waiting), 'VM')} {verb} in the queue: vgpumgr queue list")


def _require_layouts(file: str, layouts: LayoutPlan, most: int = 5) -> None:
    unmet = [gpu for gpu in layouts.gpus if gpu.changes or gpu.refused]
    if unmet:
        lines = [f"{g.host} {g.device}: {'; '.join(g.differences)}" for g in unmet[:most]]
        rest = len(unmet) - len(lines)
        raise Conflict(
            f"{counted(len(unmet), 'GPU')} not partitioned as {file} declares",
            why="; ".join([*lines, *([f"and {rest} more"] if rest else [])]),
            next=f"{layout_command(file)}, then the same command again",
        )


def layout_command(file: str) -> str:
    """What to type to partition the GPUs as this file declares."""
    return f"vgpumgr layout apply -f {shlex.quote(file)}"


def explain_command(file: str) -> str:
    """What to type to learn why a VM of this file fits nowhere."""
    return f"vgpumgr explain -f {shlex.quote(file)}"


class _PlanShown:
    """People see the plan before it is carried out; once more only where it has become another."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, planned: Plan) -> None:
        text = plan_text(planned, partial=True)
        if text != self._last:
            tell_people(text)
            self._last = text


def _print_outcome(done: Plan, outcome: Outcome) -> None:
    """Programs get the plan and its outcome in one; people have seen the plan before."""
    print_item(
        "Apply", {**plan_item(done), **outcome_item(outcome)}, outcome_text(outcome_item(outcome))
    )


@click.command("delete")
@file_option
@click.option("--keep-disks", is_flag=True, help="Keep the volumes created for the VMs.")
@click.option("--force", is_flag=True, help="Power running VMs off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(context: Context, file: str, keep_disks: bool, force: bool, yes: bool) -> None:
    """Delete the VMs that a file names, with the disks and GPU parts created for them."""
    from vgpumgr.cli.commands.vm_create import delete_vms

    documents = load_documents(context, file)
    if stays := what_stays(documents):
        say(f"left as they are: {stays}")
    if documents.pools:
        delete_pools(context, documents, file, confirm(yes=yes))
        return
    wanted = vms_of(documents, file)
    names = {spec.name for spec in wanted}
    known = [vm.name for vm in context.app.ledger.vms() if vm.name in names]
    waiting = _waiting(context, names - set(known))
    ask = confirm(yes=yes)
    if waiting:
        ask(f"take {spanned(waiting)} from the queue?")
        context.app.writable_ledger.cancel_queued(waiting)
        say(f"removed from the queue: {spanned(waiting)}")
    if known:
        try:
            delete_vms(context, known, keep_disks=keep_disks, force=force, ask=ask)
        except StillRunning as error:
            again = f"vgpumgr delete -f {shlex.quote(file)} --force"
            error.next = f"{again}   (powers them off), or first {error.stop}"
            raise
    elif not waiting:
        say("nothing to delete")
    say_surplus(context, wanted)


def _waiting(context: Context, names: set[str]) -> list[str]:
    """The VMs that wait in the queue and were never made. A shelved VM leaves it when deleted."""
    queue = context.app.ledger.queue()
    return [each.name for each in queue if each.name in names and each.state is QueueState.WAITING]
