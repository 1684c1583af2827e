"""The commands on whole files of VMs and pools: apply, plan, diff and delete."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.apply_file import (
    FileRun,
    PlanShown,
    holds,
    is_mixed,
    show_file_plan,
)
from vgpumgr.cli.commands.pool import apply_pools, delete_pools, part_of, plan_pools
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.user_files import document_text, file_option
from vgpumgr.cli.views.layout_views import layout_plan_text
from vgpumgr.cli.views.outcome_views import outcome_text, with_users_option
from vgpumgr.cli.views.plan_views import plan_text, pruned
from vgpumgr.endpoints.documents import DocumentText, typed_source
from vgpumgr.endpoints.endpoint import Result
from vgpumgr.endpoints.plan_items import PlanItem
from vgpumgr.endpoints.queue import CANCEL_QUEUED, CancelQueued
from vgpumgr.endpoints.vm_documents import (
    APPLY_VMS,
    FIND_VMS,
    PLAN_VMS,
    ApplyVms,
    NamedVms,
    PlanVms,
)
from vgpumgr.model.errors import NoPlacement, PoolsInFile, StillRunning
from vgpumgr.model.formats import counted, spanned

T = TypeVar("T")
CHANGES_PENDING = 10


def _unless_pools(of_vms: Callable[[], T]) -> T | None:
    """The answer of VMs; None where the file holds pools, which are asked for by themselves."""
    try:
        return of_vms()
    except PoolsInFile:
        return None


at_once_option = click.option(
    "--at-once",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of all VMs in the file that have to stop for a change, stop N at a time.",
)


prune_option = click.option(
    "--prune", is_flag=True, help="Delete replicas that the file has no longer."
)


@click.command("plan")
@file_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when something would change.")
@at_once_option
@prune_option
@output_option
@pass_context
def plan(
    context: Context, file: str, detailed_exitcode: bool, at_once: int | None, prune: bool
) -> None:
    """Show what apply would do; probes every host, changes nothing."""
    asked = document_text(file)
    wanted = PlanVms(text=asked.text, source=asked.source, at_once=at_once, prune=prune)
    if is_mixed(asked.text):
        whole, changes = show_file_plan(context, wanted)
        finish(whole)
        _exit_if(detailed_exitcode and changes)
        return
    found = _unless_pools(lambda: context.read(PLAN_VMS, wanted))
    if found is None:
        _exit_if(plan_pools(context, asked) and detailed_exitcode)
        return
    _print_plan(file, found.answer, prune=prune)
    if found.answer["unplaced"]:
        raise click.exceptions.Exit(NoPlacement.exit_status)
    finish(found)
    _exit_if(detailed_exitcode and _changes(found.answer, prune=prune))


@click.command("diff")
@file_option
@output_option
@pass_context
def diff(context: Context, file: str) -> None:
    """Compare a file with the fleet: exit 0 when it has converged, 10 when it has not."""
    asked = document_text(file)
    wanted = PlanVms(text=asked.text, source=asked.source)
    if is_mixed(asked.text):
        whole, changes = show_file_plan(context, wanted, partial=True)
        finish(whole)
        _exit_if(changes or bool(whole.answer["unplaced"]))
        return
    found = _unless_pools(lambda: context.read(PLAN_VMS, wanted))
    if found is None:
        _exit_if(plan_pools(context, asked))
        return
    _print_plan(file, found.answer)
    finish(found)
    _exit_if(_changes(found.answer) or bool(found.answer["unplaced"]))


def _changes(plan: PlanItem, *, prune: bool = False) -> bool:
    layouts = "layouts" in plan and plan["layouts"]["gpus"]
    return bool(plan["changes"] or layouts or (prune and pruned(plan)))


def _exit_if(changes: bool) -> None:
    if changes:
        raise click.exceptions.Exit(CHANGES_PENDING)


def _print_plan(file: str, plan: PlanItem, *, partial: bool = False, prune: bool = False) -> None:
    text = plan_text(plan, file=file, partial=partial, prune=prune)
    if "layouts" in plan and plan["layouts"]["gpus"]:
        hint = f"  next: vgpumgr layout apply {typed_source(file)}"
        text = "\n".join([layout_plan_text(plan["layouts"]), hint, text])
    print_item("Plan", plan, text)


@click.command("apply")
@file_option
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--partial", is_flag=True, help="Create the VMs that fit, even if others do not.")
@click.option("--restart", is_flag=True, help="Allow stopping VMs for changes that need it.")
@at_once_option
@with_users_option
@prune_option
@click.option("--keep-disks", is_flag=True, help="Keep the volumes of pruned VMs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before VMs are pruned.")
@output_option
@pass_context
def apply(
    context: Context,
    file: str,
    dry_run: bool,
    partial: bool,
    restart: bool,
    at_once: int | None,
    with_users: bool,
    prune: bool,
    keep_disks: bool,
    yes: bool,
) -> None:
    """Create and run the VMs of a file wherever they fit. Before them its hosts are enrolled, and
    GPUs partitioned as its layouts say; after them its pools are recorded, and `serve` creates
    their desktops.

    All VMs are reserved, or none (exit 5). Running it again resumes an interrupted run, and
    changes nothing when all have converged. What enrols, partitions or deletes is asked for once.
    """
    asked = document_text(file)
    if dry_run:
        _show_plan(context, asked, partial=partial, at_once=at_once, prune=prune)
        return
    shown = PlanShown()
    wanted = ApplyVms(
        text=asked.text,
        source=asked.source,
        partial=partial,
        restart=restart,
        at_once=at_once,
        with_users=with_users,
        keep_disks=keep_disks,
    )
    if is_mixed(asked.text):
        FileRun(context, wanted, prune, yes, shown).run()
        return
    if prune:
        gone = _confirmed_surplus(context, asked, confirm(yes=yes), keep_disks=keep_disks)
        wanted = replace(wanted, prune=gone)
    done = _unless_pools(lambda: carry_out(context, APPLY_VMS, wanted, planned=shown))
    if done is None:
        apply_pools(context, asked)
        return
    shown(done.answer)
    print_item("Apply", done.answer, outcome_text(done.answer))
    finish(done)


def _show_plan(
    context: Context, asked: DocumentText, *, partial: bool, at_once: int | None, prune: bool
) -> None:
    wanted = PlanVms(text=asked.text, source=asked.source, at_once=at_once, prune=prune)
    if is_mixed(asked.text):
        whole, _ = show_file_plan(context, wanted, partial=partial)
        finish(whole)
        return
    found: Result[PlanItem] | None = _unless_pools(lambda: context.read(PLAN_VMS, wanted))
    if found is None:
        plan_pools(context, asked)
        return
    _print_plan(asked.source, found.answer, partial=partial, prune=prune)
    if found.answer["unplaced"] and not partial:
        raise click.exceptions.Exit(NoPlacement.exit_status)
    finish(found)


def _confirmed_surplus(
    context: Context, asked: DocumentText, ask: Callable[[str], None], *, keep_disks: bool
) -> tuple[str, ...]:
    """The replicas that may be deleted: named, and asked for."""
    wanted = PlanVms(text=asked.text, source=asked.source, prune=True)
    found = _unless_pools(lambda: context.read(PLAN_VMS, wanted))
    names = pruned(found.answer) if found is not None else []
    if names:
        disks = "and keep their disks" if keep_disks else "with their disks"
        say(f"not in the file: {spanned(names)}")
        ask(f"delete {counted(len(names), 'VM')} {disks}: {spanned(names)}?")
    return tuple(names)


@click.command("delete")
@file_option
@click.option("--keep-disks", is_flag=True, help="Keep the volumes created for the VMs.")
@click.option("--force", is_flag=True, help="Power running VMs off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(context: Context, file: str, keep_disks: bool, force: bool, yes: bool) -> None:
    """Delete the pools and VMs that a file names, with the disks and GPU parts created for them.
    Hosts and layouts of the file are told, and left as they are.
    """
    asked, ask = document_text(file), confirm(yes=yes)
    pools, vms = holds(asked.text, "Pool"), holds(asked.text, "VM")
    if pools:
        delete_pools(context, asked, ask, last=not vms)
        if not vms:
            return
    found = context.read(FIND_VMS, part_of(asked))
    if stays := found.answer["stays"]:
        say(f"left as they are: {stays}")
    _cancel_waiting(context, found.answer, ask)
    _delete_known(context, file, found.answer, ask, keep_disks=keep_disks, force=force)
    finish(found)


def _cancel_waiting(context: Context, found: NamedVms, ask: Callable[[str], None]) -> None:
    waiting = found["waiting"]
    if waiting:
        ask(f"take {spanned(waiting)} from the queue?")
        context.act(CANCEL_QUEUED, CancelQueued(names=tuple(waiting)))
        say(f"removed from the queue: {spanned(waiting)}")


def _delete_known(
    context: Context,
    file: str,
    found: NamedVms,
    ask: Callable[[str], None],
    *,
    keep_disks: bool,
    force: bool,
) -> None:
    from vgpumgr.cli.commands.vm_create import delete_vms

    if not found["vms"]:
        if not found["waiting"]:
            say("nothing to delete")
        return
    try:
        delete_vms(context, found["vms"], keep_disks=keep_disks, force=force, ask=ask)
    except StillRunning as error:
        _, _, instead = error.next.partition("   (")
        error.next = f"vgpumgr delete -f {shlex.quote(file)} --force   ({instead}"
        raise
