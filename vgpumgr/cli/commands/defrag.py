"""The commands `defrag plan`, `apply`, `list` and `cancel`: VMs moved to make room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.defrag_views import defrag_text, defragmented_text
from vgpumgr.cli.views.outcome_views import with_users_option
from vgpumgr.endpoints import defragmentation, logoff_moves
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.defrag import MoveMode
from vgpumgr.model.formats import counted

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
        click.option(
            "--memory",
            "memory_mib",
            type=MemoryType(),
            help="Memory per VM of --for; default 4GiB.",
        ),
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


CHANGES_PENDING = 10


@click.group()
def defrag() -> None:
    """Make room by moving VMs from GPU to GPU: whole GPUs empty, or a request that fits."""


@defrag.command()
@wanted_options
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when something would move.")
@output_option
@pass_context
def plan(context: Context, /, detailed_exitcode: bool, **asked: Any) -> None:
    """Show the fewest moves that reach the goal, in a feasible order.

    The goal is a number of empty GPUs (--free) or of VMs that fit (--for); without either, a
    fragmentation below the threshold (30 %, `defrag_threshold` in the configuration).
    """
    found = context.read(defragmentation.PLAN_DEFRAG, defragmentation.DefragWish(**asked))
    print_item("DefragPlan", found.answer, defrag_text(found.answer))
    finish(found)
    if detailed_exitcode and found.answer["moves"]:
        raise click.exceptions.Exit(CHANGES_PENDING)


@defrag.command()
@wanted_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask whether VMs may be stopped.")
@output_option
@pass_context
def apply(context: Context, /, yes: bool, **asked: Any) -> None:
    """Plan and move: live where possible, cold only with --allow-cold.

    The first move that is refused or fails ends it (exit 7); nothing is lost, and the same command
    resumes it. Interrupted moves are finished first.
    """
    may_stop: tuple[str, ...] = ()
    if asked["allow_cold"] or asked["at_logoff"]:
        may_stop = _agreed(context, defragmentation.DefragWish(**asked), yes=yes)
    wanted = defragmentation.Defragmentation(**asked, may_stop=may_stop)
    done = carry_out(context, defragmentation.APPLY_DEFRAG, wanted)
    print_item("Defrag", done.answer, defragmented_text(done.answer))
    finish(done)


def _agreed(context: Context, asked: defragmentation.DefragWish, *, yes: bool) -> tuple[str, ...]:
    """The VMs that may be stopped: the ones in the plan, once that is confirmed."""
    finish(carry_out(context, defragmentation.FINISH_MOVES, Nothing()))
    found = context.read(defragmentation.PLAN_DEFRAG, asked)
    if not found.answer["possible"]:
        finish(found)
    stopped = [move for move in found.answer["moves"] if move["how"] == MoveMode.COLD]
    if stopped:
        say(defrag_text(found.answer))
        users = ", ".join(f"{move['user']} on {move['name']}" for move in stopped if move["user"])
        cut_off = f", and cut off {users}," if users else ""
        confirm(yes=yes)(f"stop {counted(len(stopped), 'VM')}{cut_off} for that?")
    return tuple(move["name"] for move in stopped)


LOGOFF_COLUMNS = (
    Column("VM", "name"),
    Column("WAITS FOR", "user"),
    Column("TO", "host"),
    Column("FOR", "why"),
    Column("SINCE", lambda item: age(item["asked_at"])),
)


@defrag.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List moves that wait until a user has logged off; `serve` makes them then."""
    found = context.read(logoff_moves.LIST_MOVES, Nothing())
    print_list("LogoffMove", found.answer["items"], LOGOFF_COLUMNS)


@defrag.command()
@click.argument("names", nargs=-1, required=True, metavar="VM...", shell_complete=completed("vms"))
@pass_context
def cancel(context: Context, names: tuple[str, ...]) -> None:
    """Cancel moves that wait for a logoff; the VMs stay where they are."""
    asked = logoff_moves.CancelledMoves(names=names)
    done = context.act(logoff_moves.CANCEL_MOVES, asked)
    for each in done.answer["items"]:
        say(f"{each['name']}: stays on {each['host']} when {each['user']} logs off")
    finish(done)
