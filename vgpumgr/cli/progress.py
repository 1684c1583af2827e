"""Changes of the fleet: progress on stderr, Ctrl-C, and a probe of the touched hosts afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.cli.interrupts import ending_gently
from vgpumgr.cli.output import chosen_format
from vgpumgr.cli.terminal import CLEAR_LINE, echo, one_line
from vgpumgr.model.operation import TaskState

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.cli.command_context import Context
    from vgpumgr.engine.engine import Engine
    from vgpumgr.engine.operations.operation_outcome import VmOutcome


@contextmanager
def changing(context: Context, total: int) -> Iterator[Engine]:
    """The engine, for a change of ``total`` VMs.

    Every VM's end is reported, the first Ctrl-C lets the running host call end, and the hosts
    that were touched and answered are probed afterwards, so that lists show what the change did.
    """
    from vgpumgr.engine.operations.task_run import CUT

    app = context.app
    with ending_gently(app.stop, app.leave_to_person):
        with _reporting(app, total) as ended:
            yield app.engine
        touched = {host for outcome in ended for host in outcome.hosts} - {
            host for outcome in ended if isinstance(outcome.error, CUT) for host in outcome.hosts
        }
        if touched and not app.stop.is_set():
            app.engine.refresh(touched)


@contextmanager
def _reporting(app: App, total: int) -> Iterator[list[VmOutcome]]:
    """A counter at a terminal, a line per failure elsewhere. Lanes call from their own threads."""
    lock = threading.Lock()
    ended: list[VmOutcome] = []
    quiet = chosen_format().name == "json"
    live = sys.stderr.isatty() and not quiet

    def report(outcome: VmOutcome) -> None:
        with lock:
            ended.append(outcome)
            if outcome.state is not TaskState.DONE and not quiet:
                reason = f": {one_line(str(outcome.error))}" if outcome.error else ""
                _line(f"{outcome.vm} on {outcome.host}: {outcome.verb} {outcome.state}{reason}")
            if live:
                echo(f"{CLEAR_LINE}{len(ended)}/{total} {outcome.vm:.40}", nl=False, err=True)

    def told(text: str) -> None:
        with lock:
            if live:
                echo(f"{CLEAR_LINE}{one_line(text)[:100]}", nl=False, err=True)
            elif not quiet:
                _line(text)

    app.progress, app.tell = report, told
    try:
        yield ended
    finally:
        app.progress, app.tell = (lambda _: None), (lambda _: None)
        if live and ended:
            echo(CLEAR_LINE, nl=False, err=True)


def _line(text: str) -> None:
    prefix = CLEAR_LINE if sys.stderr.isatty() else ""
    echo(f"{prefix}{text}", err=True)
