"""The commands `balance plan` and `run`: VMs moved from hot hosts to cooler ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.balance_views import balance_text, balanced_text
from vgpumgr.cli.views.outcome_views import with_users_option
from vgpumgr.endpoints import balance as endpoints
from vgpumgr.model.formats import counted

F = TypeVar("F", bound=Callable[..., None])


def wish_options(command: F) -> F:
    """When a host is hot, and what is allowed."""
    options = (
        click.option(
            "--hot",
            type=click.FloatRange(0.1, 1),
            default=0.8,
            show_default=True,
            help="The share of vCPUs, memory or GPU time above which a host is hot.",
        ),
        click.option(
            "--max-moves", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N",
            help="At most this many moves.",
        ),
        click.option(
            "--allow-cold",
            is_flag=True,
            help="Stop VMs that cannot move running; none that a user is at work on.",
        ),
        with_users_option,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def balance() -> None:
    """Move VMs from hot hosts to cooler ones."""


@balance.command()
@wish_options
@output_option
@pass_context
def plan(context: Context, /, **asked: Any) -> None:
    """Show which hosts are hot, and which VMs would leave them; nothing is moved."""
    found = context.read(endpoints.PLAN_BALANCE, endpoints.BalanceWish(**asked))
    print_item("BalancePlan", found.answer, balance_text(found.answer))
    finish(found)


@balance.command()
@wish_options
@click.option("-y", "--yes", is_flag=True, help="Move what the plan says without asking.")
@output_option
@pass_context
def run(context: Context, /, yes: bool, **asked: Any) -> None:
    """Show the plan, ask, and move: live where possible, cold only with --allow-cold.

    The first move that is refused or fails ends it; the same command makes a new plan.
    """
    found = context.read(endpoints.PLAN_BALANCE, endpoints.BalanceWish(**asked))
    moves = found.answer["moves"]
    if moves:
        say(balance_text(found.answer))
        users = ", ".join(f"{each['user']} on {each['name']}" for each in moves if each["cuts_off"])
        cut_off = f", and cut off {users}" if users else ""
        confirm(yes=yes)(f"move {counted(len(moves), 'VM')}{cut_off}?")
    wanted = endpoints.BalanceRun(**asked, may_move=tuple(each["name"] for each in moves))
    done = carry_out(context, endpoints.RUN_BALANCE, wanted)
    print_item("Balance", done.answer, balanced_text(done.answer))
    finish(done)
