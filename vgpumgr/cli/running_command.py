"""A command under way: what Ctrl-C does to it, and the progress of a change on stderr.

A command that reads ends at once; a change first lets its running host calls end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vgpumgr.cli.failure import report, wants_json
from vgpumgr.cli.output import chosen_format, say
from vgpumgr.cli.terminal import CLEAR_LINE, echo, one_line
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import Interrupted, VgpumgrError

# How long the second Ctrl-C waits for its last words to be written down.
_BRIEF_S = 2.0
AFTER_A_CHANGE = "vgpumgr operation list --open"
P = TypeVar("P")
A = TypeVar("A")


@contextmanager
def ending_at_once(next: str = "") -> Iterator[None]:
    """Ctrl-C ends the process, also while a lane waits for a host that hangs."""
    with _on_interrupt(lambda: _end(next=next)):
        yield


@contextmanager
def ending_gently(
    stop: threading.Event, leave: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """The first Ctrl-C sets ``stop``; the second ends the process, ``leave`` once called.

    Nothing is lost by that: the journal is on disk, and whoever goes on looks at the hosts first.
    """

    def interrupt() -> None:
        if stop.is_set():
            _briefly(leave)
            _end(next=AFTER_A_CHANGE)
        stop.set()
        say("interrupting: waiting for running host calls to finish …")

    with _on_interrupt(interrupt):
        yield


@contextmanager
def leaving_by_interrupt() -> Iterator[None]:
    """Ctrl-C is how one leaves the block: no error, and what follows it goes on."""

    def leave() -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), _on_interrupt(leave):
        yield


@contextmanager
def _on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    def handler(_signal: int, _frame: Any) -> None:
        act()

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _briefly(act: Callable[[], object]) -> None:
    """In a thread of its own, which may wait in vain for what the interrupted one holds."""

    def quietly() -> None:
        with suppress(VgpumgrError):
            act()

    thread = threading.Thread(target=carried(quietly), daemon=True)
    thread.start()
    thread.join(_BRIEF_S)


def _end(*, next: str) -> None:
    """End without waiting for any thread."""
    code = report(Interrupted("interrupted", next=next), debug=False, as_json=wants_json(sys.argv))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context
    from vgpumgr.endpoints.endpoint import Endpoint, Result
    from vgpumgr.engine.operations.operation_outcome import VmOutcome


def carry_out(
    context: Context,
    endpoint: Endpoint[P, A],
    asked: P,
    *,
    total: int | None = None,
    planned: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> Result[A]:
    """The result of an endpoint that changes VMs, ``total`` of them where the caller knows: every
    VM's end is reported as it comes, and the first Ctrl-C lets the running host calls end.
    ``planned`` hears of the plan before it is carried out.
    """
    from vgpumgr.endpoints.call_context import CallContext

    size = endpoint.size(asked) if total is None else total
    if context.server is not None:
        with _reporting(size) as sinks:
            watch = OperationWatch(sinks, planned)
            with _on_interrupt(lambda: _end(next=watch.next)):
                return context.server.carry_out(endpoint, asked, watch)
    app = context.app
    with ending_gently(app.stop, app.leave_to_person), _reporting(size) as sinks:

        def heard(plan: Mapping[str, Any]) -> None:
            sinks.sized(plan["changes"])
            planned(plan)

        call = CallContext(app=app, progress=sinks.progress, tell=sinks.tell, planned=heard)
        return endpoint.work(call, asked)


@contextmanager
def telling(next: Callable[[], str]) -> Iterator[Callable[[str], None]]:
    """What hears of the progress of what is no operation. Ctrl-C ends it at once, with ``next``."""
    with _reporting(0) as sinks, _on_interrupt(lambda: _end(next=next())):
        yield sinks.tell


class OperationWatch:
    """Reports the tasks of an operation at a server as they end."""

    def __init__(self, sinks: _Sinks, planned: Callable[[Mapping[str, Any]], None]) -> None:
        self._sinks, self._planned = sinks, planned
        self._told: set[str] = set()
        self._lines = 0
        self._operation = ""

    @property
    def next(self) -> str:
        """What to type where the command ends before the operation."""
        if not self._operation:
            return AFTER_A_CHANGE
        return f"it goes on at the server: vgpumgr operation show {self._operation[:8]}"

    def __call__(self, operation: Mapping[str, Any]) -> None:
        """Report the tasks that have ended since."""
        from vgpumgr.engine.operations.operation_outcome import VmOutcome
        from vgpumgr.model.errors import VgpumgrError
        from vgpumgr.model.operation import FINAL_TASKS, ROLL, TaskState

        self._operation = operation["name"]
        self._sinks.sized(len(operation["tasks"]))
        if plan := operation.get("plan"):
            self._planned(plan)
        lines = operation.get("told", ())
        for line in lines[self._lines :]:
            self._sinks.tell(line)
        self._lines = max(self._lines, len(lines))
        for task in operation["tasks"]:
            state = TaskState(task["state"])
            if state in FINAL_TASKS and task["verb"] != ROLL and task["id"] not in self._told:
                self._told.add(task["id"])
                error = VgpumgrError(task["error"]) if task["error"] else None
                told = {name: task[name] for name in ("vm", "host", "verb")}
                self._sinks.progress(VmOutcome(**told, state=state, error=error))


def finish(result: Result[Any]) -> None:
    """Say the notes of an answer that was printed, and raise what went wrong."""
    for note in result.notes:
        say(note)
    if result.error is not None:
        raise result.error


@dataclass(frozen=True, slots=True)
class _Sinks:
    """What hears of a change's progress; ``sized`` of how many VMs it is about."""

    progress: Callable[[VmOutcome], None]
    tell: Callable[[str], None]
    sized: Callable[[int], None]


@contextmanager
def _reporting(total: int) -> Iterator[_Sinks]:
    """A counter at a terminal, a line per failure elsewhere. Lanes call from their own threads."""
    from vgpumgr.model.operation import TaskState

    lock = threading.Lock()
    ended = shown = 0
    quiet = chosen_format().name == "json"
    live = sys.stderr.isatty() and not quiet

    def report(outcome: VmOutcome) -> None:
        nonlocal ended
        with lock:
            ended += 1
            if outcome.state is not TaskState.DONE and not quiet:
                reason = f": {one_line(str(outcome.error))}" if outcome.error else ""
                _line(f"{outcome.vm} on {outcome.host}: {outcome.verb} {outcome.state}{reason}")
            if live:
                echo(f"{CLEAR_LINE}{ended}/{total} {outcome.vm:.40}", nl=False, err=True)

    def sized(count: int) -> None:
        nonlocal total
        total = max(total, count)

    def told(text: str) -> None:
        nonlocal shown
        with lock:
            if live:
                shown += 1
                echo(f"{CLEAR_LINE}{one_line(text)[:100]}", nl=False, err=True)
            elif not quiet:
                _line(text)

    try:
        yield _Sinks(report, told, sized)
    finally:
        if live and (ended or shown):
            echo(CLEAR_LINE, nl=False, err=True)


def _line(text: str) -> None:
    prefix = CLEAR_LINE if sys.stderr.isatty() else ""
    echo(f"{prefix}{text}", err=True)
