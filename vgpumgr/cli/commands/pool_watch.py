"""``vgpumgr pool watch``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.interrupts import leaving_by_interrupt
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.views.pool_items import moved, pool_text, whole_pool

BEAT_S = 1.0


@click.command()
@click.argument("name", shell_complete=completed("pools"))
@click.option("--changes", type=click.IntRange(1), help="Exit after this many changes.")
@pass_context
def watch(context: Context, name: str, changes: int | None) -> None:
    """Follow a pool until Ctrl-C; without a terminal, print a line per change."""
    with leaving_by_interrupt():
        if sys.stdout.isatty():
            _redraw(context, name)
        else:
            _lines(context, name, changes)


def _redraw(context: Context, name: str) -> None:
    drawn = ""
    while True:
        text = pool_text(whole_pool(context.app.ledger, name))
        if text != drawn:
            click.clear()
            echo(text)
            drawn = text
        time.sleep(BEAT_S)


def _lines(context: Context, name: str, most: int | None) -> None:
    before: list[dict[str, Any]] = []
    told = 0
    while most is None or told < most:
        now = whole_pool(context.app.ledger, name)["items"]
        for line in moved(before, now):
            echo(line)
            told += 1
        sys.stdout.flush()
        before = now
        if most is None or told < most:
            time.sleep(BEAT_S)
