"""The commands `defrag plan`, `apply`, `list` and `cancel`: VMs moved to make room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.move_views import (
    LOGOFF_COLUMNS,
    defrag_item,
    defrag_text,
    defragmented_item,
    gauge_words,
    goal_words,
    logoff_item,
    waiting_words,
)
from vgpumgr.cli.views.outcome_views import with_users_option
from vgpumgr.model.defrag import (
    DefragGoal,
    DefragMoves,
    EmptyGpus,
    FreeRoom,
    MoveMode,
    NoDefragMoves,
)
from vgpumgr.model.errors import NoPlacement, PartlyDone, UnknownProfile, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.placement import by_board
from vgpumgr.model.vm import GpuRequest, VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.defrag.defrag_apply import DefragReport
    from vgpumgr.engine.defrag.defrag_plan import DefragPlan, DefragRequest


F = TypeVar("F", bound=Callable[..., None])


def wanted_options(command: F) -> F:
    """The goal, and what is allowed for it."""
    options = (
        click.option(
            "--free", type=click.IntRange(1), metavar="N", help="Goal: N empty GPUs in total."
        ),
        click.option(
            "--for",
            "profile",
            metavar="PROFILE",
            help="Goal: room for VMs with one GPU part of this profile.",
        ),
        click.option(
            "--count", type=click.IntRange(1, 10_000), help="Number of VMs of --for; default 1."
        ),
        click.option(
            "--vcpus", type=click.IntRange(1, 512), help="vCPUs per VM of --for; default 2."
        ),
        click.option("--memory", type=MemoryType(), help="Memory per VM of --for; default 4GiB."),
        click.option(
            "--max-moves", type=click.IntRange(0), metavar="N", help="At most this many moves."
        ),
        click.option(
            "--allow-cold",
            is_flag=True,
            help="Stop VMs that cannot move running; none that a user is at work on.",
        ),
        with_users_option,
        click.option(
            "--at-logoff",
            is_flag=True,
            help="Desktops may be stopped: free ones now, used ones once their users log off.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def goal_of(
    free: int | None,
    profile: str | None,
    count: int | None,
    vcpus: int | None,
    memory: int | None,
) -> DefragGoal | None:
    """None: the gauge. UsageError for two goals, and for what belongs to a goal not given."""
    if free is not None and profile is not None:
        raise UsageError("--free and --for are different goals", next="give one of them")
    if profile is None:
        given = {"--count": count, "--vcpus": vcpus, "--memory": memory}
        alone = [name for name, value in given.items() if value is not None]
        if alone:
            raise UsageError(f"{', '.join(alone)} needs --for", next="give the profile with --for")
        return None if free is None else EmptyGpus(gpus=free)
    part = GpuRequest(profile=profile)
    request = VmSpec(name="defrag", vcpus=vcpus or 2, memory_mib=memory or 4096, gpus=(part,))
    return FreeRoom(request=request, count=count or 1)


def require_made(context: Context, profile: str) -> None:
    """UnknownProfile for what no GPU of the fleet makes."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    fleet = build_fleet(read_view(context.app.ledger))
    offers = (o for host in fleet.hosts for gpu in host.gpus for o in gpu.offers)
    if not any(profile in (offer.profile, *offer.names) for offer in offers):
        raise UnknownProfile(f"no GPU of the fleet can provide {profile}", next="vgpumgr capacity")


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
    if detailed_exitcode and isinstance(found.found, DefragMoves) and found.found.moves:
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
    assert isinstance(found.found, DefragMoves)
    stopped = [move for move in found.found.moves if move.way.how is MoveMode.COLD]
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


def _wanted(context: Context, goal: DefragGoal | None, most: int | None) -> DefragRequest:
    from vgpumgr.engine.defrag.defrag_plan import DefragRequest

    context.app.require_hosts()
    return DefragRequest(goal=goal, share=context.config.defrag_threshold, most=most)


def _planned(context: Context, wanted: DefragRequest) -> tuple[DefragPlan, tuple[str, ...]]:
    """The plan, and a line for each host that was not read."""
    planned = context.app.engine.defrag_plan(wanted)
    if isinstance(wanted.goal, FreeRoom):
        require_made(context, wanted.goal.request.gpus[0].profile)
    return planned


def _refuse(plan: DefragPlan) -> None:
    """NoPlacement, with what is in the way and what would help."""
    found = plan.found
    if not isinstance(found, NoDefragMoves):
        return
    groups = by_board(each.reason for each in found.obstacles)
    why = [f"{each.nearest.host}: {each.text}" for each in groups]
    if found.needs is not None:
        why = [f"it takes {counted(found.needs, 'move')}, --max-moves allows {plan.wanted.most}"]
    elif found.reachable:
        why.insert(0, f"{found.reachable} can be reached")
    if plan.users:
        from vgpumgr.engine.migration.users_at_work import users_cut_off

        again = "the same command with --at-logoff waits for them, with --with-users it does not"
        raise users_cut_off(plan.users, next=again)
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


def _done_text(done: DefragReport) -> str:
    total = len(done.plan.found.moves) if isinstance(done.plan.found, DefragMoves) else 0
    if not total:
        return defrag_text(done.plan)
    moved = f"{len(done.done)} of {counted(total, 'move')} done"
    if len(done.done) == total:
        moved = f"{moved}{gauge_words(done.plan)}"
    cut_off = ", ".join(f"{move.user} on {move.vm}" for move in done.done if move.cuts_off)
    lines = [f"{moved}; cut off: {cut_off}" if cut_off else moved]
    return "\n".join([*lines, *map(waiting_words, done.waiting)])


def _raise(done: DefragReport) -> None:
    """What ended it before its last move."""
    found, outcome = done.plan.found, done.outcome
    if outcome.interrupted:
        outcome.raise_for_failure()
    total = len(found.moves) if isinstance(found, DefragMoves) else 0
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


def _look_again(context: Context, wanted: DefragRequest) -> None:
    """PartlyDone where the goal is not reached: others may have taken what the moves freed."""
    found = _planned(context, wanted)[0].found
    if isinstance(found, NoDefragMoves) or found.moves:
        goal = goal_words(wanted.goal, wanted.share)
        raise PartlyDone(
            f"all moves are done, but the goal is not reached: {goal}", next="vgpumgr map"
        )
