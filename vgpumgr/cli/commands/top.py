"""The command `top`: what GPUs and VMs do now, as it changes."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import chosen_format, output_option, print_item, say
from vgpumgr.cli.running_command import finish, leaving_by_interrupt
from vgpumgr.cli.terminal import echo, fitted, width
from vgpumgr.cli.views.figure_views import top_text

if TYPE_CHECKING:
    from vgpumgr.endpoints.endpoint import Result
    from vgpumgr.endpoints.top import TopAnswer

# Lines that the head and the shell's next prompt take.
_HEAD_LINES = 3


@click.command()
@click.option("--host", "host", help="Only of this host.", shell_complete=completed("hosts"))
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600.0),
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@output_option
@pass_context
def top(context: Context, host: str | None, once: bool, interval: float) -> None:
    """Show what GPUs and VMs measure now, until Ctrl-C.

    Figures are what `serve` reads every 15 seconds on the machine that answers; where none
    runs, every host is asked at each look. Without a terminal, and with -o json, it prints once.
    """
    live = not once and sys.stdout.isatty() and chosen_format().name == "table"
    if not live:
        found = _looked(context, host)
        print_item("Top", found.answer, top_text(found.answer))
        finish(found)
        return
    with leaving_by_interrupt():
        while True:
            _draw(_looked(context, host).answer)
            time.sleep(interval)


def _draw(answer: TopAnswer) -> None:
    """As much as the terminal has room for."""
    room = shutil.get_terminal_size().lines - _HEAD_LINES - len(answer["silent"])
    click.clear()
    echo(fitted(top_text(answer, max(2, room)), width()))


def _looked(context: Context, host: str | None) -> Result[TopAnswer]:
    """By what is kept; else every host is asked."""
    from vgpumgr.endpoints.top import SHOW_TOP, TopAsked

    found: Result[TopAnswer] = context.read(SHOW_TOP, TopAsked(host=host or None))
    if found.answer["at"] is not None:
        return found
    say("no `vgpumgr serve` keeps figures here: every host is asked")
    asked: Result[TopAnswer] = context.read(SHOW_TOP, TopAsked(host=host or None, refresh=True))
    return asked
