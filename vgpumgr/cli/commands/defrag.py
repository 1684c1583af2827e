"""``vgpumgr defrag``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands.defrag_goal import goal_of, require_made, wanted_options
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import list_options, output_option, print_item, print_list, say
from vgpumgr.cli.progress import changing
from vgpumgr.cli.questions import confirm
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.defrags import (
    LOGOFF_COLUMNS,
    defrag_item,
    defrag_text,
    defragmented_item,
    gauge_words,
    goal_words,
    logoff_item,
    waiting_words,
)
from vgpumgr.model.defrag import Goal, How, Moves, NoMoves, Room
from vgpumgr.model.errors import NoPlacement, PartlyDone
from vgpumgr.model.placement import by_board
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.defrag import DefragPlan, Wanted
    from vgpumgr.engine.use_cases.defrag import Defragmented

CHANGES_PENDING = 10


@click.group()
def defrag() -> None:
    """Make room by moving VMs from GPU to GPU: whole GPUs empty, or a request that fits."""


@defrag.command()
@wanted_options
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when something would move.")
@output_option
@pass_context
def plan(
    context: Context,
    free: int | None,
    profile: str | None,
    count: int | None,
    vcpus: int | None,
    memory: int | None,
    max_moves: int | None,
    allow_cold: bool,
    with_users: bool,
    at_logoff: bool,
    detailed_exitcode: bool,
) -> None:
    """Show the fewest moves that reach the goal, in a feasible order.

    The goal is a number of empty GPUs (--free) or of VMs that fit (--for); without either, a
    fragmentation below the threshold (30 %, `defrag_threshold` in the configuration).
    """
    goal = goal_of(free, profile, count, vcpus, memory)
    wanted = _wanted(context, goal, max_moves)
    wanted = replace(wanted, cold=allow_cold, with_users=with_users, at_logoff=at_logoff)
    found, unread = _planned(context, wanted)
    print_item("DefragPlan", defrag_item(found), defrag_text(found))
    _refuse(found)
    if unread:
        raise PartlyDone(f"{counted(len(unread), 'host')} were left out", why="; ".join(unread))
    if detailed_exitcode and isinstance(found.found, Moves) and found.found.moves:
        raise click.exceptions.Exit(CHANGES_PENDING)


@defrag.command()
@wanted_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask whether VMs may be stopped.")
@output_option
@pass_context
def apply(
    context: Context,
    free: int | None,
    profile: str | None,
    count: int | None,
    vcpus: int | None,
    memory: int | None,
    max_moves: int | None,
    allow_cold: bool,
    with_users: bool,
    at_logoff: bool,
    yes: bool,
) -> None:
    """Plan and move: live where possible, cold only with --allow-cold.

    The first move that is refused or fails ends it (exit 7); nothing is lost, and the same command
    resumes it. Interrupted moves are finished first.
    """
    goal = goal_of(free, profile, count, vcpus, memory)
    wanted = _wanted(context, goal, max_moves)
    wanted = replace(wanted, cold=allow_cold, with_users=with_users, at_logoff=at_logoff)
    with changing(context, 0) as engine:
        engine.end_moves().raise_for_failure()
    found, unread = _planned(context, wanted)
    for line in unread:
        say(line)
    _refuse(found)
    assert isinstance(found.found, Moves)
    stopped = [move for move in found.found.moves if move.way.how is How.COLD]
    if stopped:
        say(defrag_text(found))
        users = ", ".join(f"{move.user} on {move.vm}" for move in stopped if move.user)
        cut_off = f", and cut off {users}," if users else ""
        confirm(yes=yes)(f"stop {counted(len(stopped), 'VM')}{cut_off} for that?")
    with changing(context, len(found.found.moves)) as engine:
        done = engine.defrag(found)
    print_item("Defrag", defragmented_item(done), _done_text(done))
    _raise(done)
    _look_again(context, wanted)


@defrag.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List moves that wait until a user has logged off; `serve` makes them then."""
    items = [logoff_item(each) for each in context.app.ledger.logoff_moves()]
    print_list("LogoffMove", items, LOGOFF_COLUMNS)


@defrag.command()
@click.argument("names", nargs=-1, required=True, metavar="VM...", shell_complete=completed("vms"))
@pass_context
def cancel(context: Context, names: tuple[str, ...]) -> None:
    """Cancel moves that wait for a logoff; the VMs stay where they are."""
    for name in names:
        moved = context.app.engine.cancel_logoff_move(name)
        say(f"{name}: stays on {context.app.ledger.vm(name).host} when {moved.user} logs off")


def _wanted(context: Context, goal: Goal | None, most: int | None) -> Wanted:
    from vgpumgr.engine.defrag import Wanted

    context.app.require_hosts()
    return Wanted(goal=goal, share=context.config.defrag_threshold, most=most)


def _planned(context: Context, wanted: Wanted) -> tuple[DefragPlan, tuple[str, ...]]:
    """The plan, and a line for each host that was not read."""
    planned = context.app.engine.defrag_plan(wanted)
    if isinstance(wanted.goal, Room):
        require_made(context, wanted.goal.request.gpus[0].profile)
    return planned


def _refuse(plan: DefragPlan) -> None:
    """NoPlacement, with what is in the way and what would help."""
    found = plan.found
    if not isinstance(found, NoMoves):
        return
    groups = by_board(each.reason for each in found.obstacles)
    why = [f"{each.nearest.host}: {each.text}" for each in groups]
    if found.needs is not None:
        why = [f"it takes {counted(found.needs, 'move')}, --max-moves allows {plan.wanted.most}"]
    elif found.reachable:
        why.insert(0, f"{found.reachable} can be reached")
    if plan.users:
        from vgpumgr.engine.use_cases.users_at_work import cut_off

        again = "the same command with --at-logoff waits for them, with --with-users it does not"
        raise cut_off(plan.users, next=again)
    helps = "vgpumgr map"
    if plan.colder is not None:
        helps = (
            f"--allow-cold: {counted(plan.colder, 'move')} would be enough if VMs may be stopped"
        )
    raise NoPlacement(
        f"no moves were found that reach {goal_words(plan.wanted.goal, plan.wanted.share)}",
        why="; ".join([*why[:8], *plan.refused[:4]]),
        next=helps,
    )


def _done_text(done: Defragmented) -> str:
    total = len(done.plan.found.moves) if isinstance(done.plan.found, Moves) else 0
    if not total:
        return defrag_text(done.plan)
    moved = f"{len(done.done)} of {counted(total, 'move')} done"
    if len(done.done) == total:
        moved = f"{moved}{gauge_words(done.plan)}"
    cut_off = ", ".join(f"{move.user} on {move.vm}" for move in done.done if move.cuts_off)
    lines = [f"{moved}; cut off: {cut_off}" if cut_off else moved]
    return "\n".join([*lines, *map(waiting_words, done.waiting)])


def _raise(done: Defragmented) -> None:
    """What ended it before its last move."""
    found, outcome = done.plan.found, done.outcome
    if outcome.interrupted:
        outcome.raise_for_failure()
    total = len(found.moves) if isinstance(found, Moves) else 0
    if len(done.done) == total:
        return
    if done.waiting and len(done.done) + len(done.waiting) == total:
        raise PartlyDone(
            f"{len(done.done)} of {counted(total, 'move')} done, the others wait for a logoff",
            why=", ".join(f"{move.user} is on {move.vm}" for move in done.waiting),
            next="vgpumgr serve carries them out then; vgpumgr defrag "
            "list, vgpumgr defrag cancel VM",
        )
    errors = [done.error, *(vm.error for vm in outcome.vms)]
    error = next(filter(None, errors), None)
    raise PartlyDone(
        f"{len(done.done)} of {counted(total, 'move')} done",
        why=f"{error.message}: {error.why}" if error and error.why else str(error or ""),
        next="the same command again: it makes a new plan and continues",
    ) from error


def _look_again(context: Context, wanted: Wanted) -> None:
    """Others may have taken meanwhile what was won."""
    found = _planned(context, wanted)[0].found
    if isinstance(found, NoMoves) or found.moves:
        goal = goal_words(wanted.goal, wanted.share)
        raise PartlyDone(
            f"all moves are done, but the goal is not reached: {goal}", next="vgpumgr map"
        )
