"""The command `serve`: the controller in the foreground, and its events on stdout."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import chosen_format, output_option
from vgpumgr.cli.terminal import echo, json_text, one_line
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import Interrupted, PartlyDone
from vgpumgr.model.formats import counted
from vgpumgr.model.json_times import time_text

if TYPE_CHECKING:
    from vgpumgr.app.controller_process import ControllerProcess
    from vgpumgr.engine.controller.controller_events import ControllerEvent
    from vgpumgr.engine.controller.cycle_schedule import ControllerStatus


class EventPrinter:
    """Prints from any thread. A reader that went away stops nobody's work."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def __call__(self, event: ControllerEvent) -> None:
        """Print one event at once."""
        text = event_json(event, time.time()) if self._as_json else event_line(event, time.time())
        with self._lock, suppress(OSError):
            echo(text)


def event_json(event: ControllerEvent, at: float) -> str:
    """The event without what it has not, and when, in UTC."""
    plain: dict[str, Any] = to_plain(event)
    kind = plain.pop("kind")
    return json_text({"at": time_text(at), "event": kind, **{k: v for k, v in plain.items() if v}})


def event_line(event: ControllerEvent, at: float) -> str:
    """``2026-11-21T10:00:00Z drift h1: …``, and what to type below it."""
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = f" {event.host}:" if event.host else ""
    next_ = f"\n    next: {one_line(event.next)}" if event.next else ""
    return f"{when} {event.kind}{where} {one_line(event.text)}{next_}"


DIFFERENCES = 10
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option(
    "--interval",
    type=click.FloatRange(1.0, 3600.0),
    default=30.0,
    show_default=True,
    help="Reconcile every host at least this often, in seconds.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Hosts to reconcile in parallel; default: the setting `lanes`.",
)
@click.option("--status", type=click.Path(path_type=Path), help="Status file to write.")
@click.option(
    "--once", is_flag=True, help="Run one reconcile cycle of every host and exit: for cron."
)
@output_option
@pass_context
def serve(
    context: Context, interval: float, workers: int | None, status: Path | None, once: bool
) -> None:
    """Run the controller: probe, finish interrupted operations, restore after boots, report drift.

    Runs until SIGTERM or Ctrl-C and then exits 0; its unfinished operations can be resumed.
    It releases and deletes nothing on its own. Events go to stdout, one JSON object a line
    with -o json. With --once: exit 7 when a host could not be read or an operation not be finished,
    10 when something differs.
    """
    from vgpumgr.app.controller_process import ControllerOptions, ControllerProcess

    config = context.config
    options = ControllerOptions(
        interval_s=interval,
        workers=workers or config.lanes,
        status=status or config.state_dir / "serve.json",
    )
    printer = EventPrinter(as_json=chosen_format().name == "json")
    server = ControllerProcess(config, options, printer)
    with _ending(server.end):
        if once:
            found, ended = server.once()
            _verdict(server, found, ended=ended)
        elif not server.run():
            _leave(0)


@contextmanager
def _ending(end: Callable[[], None]) -> Iterator[None]:
    """The first signal ends it gently, the second at once: the journal is on disk."""
    asked: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)
        end()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _verdict(server: ControllerProcess, status: ControllerStatus, *, ended: bool) -> None:
    """The exit code of ``--once``."""
    if server.ending:
        raise Interrupted("interrupted", next="vgpumgr serve --once")
    bad = [each for each in status.hosts if each.state not in {"ok", "held-by-another"}]
    left = [*status.open_operations]
    if bad or left or not ended:
        raise PartlyDone(
            f"{counted(len(bad), 'host')} could not be reconciled, "
            f"{counted(len(left), 'operation')} open",
            why="; ".join(
                [
                    *(f"{each.name}: {each.state}: {each.why}" for each in bad[:5]),
                    *(
                        f"{each.kind} {each.id[:8]}: {each.summary or each.state}"
                        for each in left[:5]
                    ),
                ]
            ),
            next="vgpumgr doctor, vgpumgr operation list --open",
        )
    if any(each.drifts for each in status.hosts):
        raise click.exceptions.Exit(DIFFERENCES)


def _leave(code: int) -> None:
    """End without the threads that still wait for a host: nothing waits for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
