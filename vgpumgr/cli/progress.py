"""Progress of long work on stderr: a counter at a terminal, a line per failure elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from vgpumgr.model.journal import TaskState

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.engine.outcome import VmOutcome


@contextmanager
def reporting(app: App, total: int) -> Iterator[None]:
    """Report every VM's end while the block runs. Lanes call from their own threads."""
    lock = threading.Lock()
    count = 0
    live = sys.stderr.isatty()

    def report(outcome: VmOutcome) -> None:
        nonlocal count
        with lock:
            count += 1
            if outcome.state is not TaskState.DONE:
                reason = f": {outcome.error}" if outcome.error else ""
                _line(f"{outcome.vm} on {outcome.host}: {outcome.verb} {outcome.state}{reason}")
            if live:
                click.echo(f"\r{count}/{total} {outcome.vm:<40.40}", nl=False, err=True)

    app.progress = report
    try:
        yield
    finally:
        app.progress = lambda _: None
        if live and count:
            click.echo("\r\x1b[K", nl=False, err=True)


def _line(text: str) -> None:
    prefix = "\r\x1b[K" if sys.stderr.isatty() else ""
    click.echo(f"{prefix}{text}", err=True)
