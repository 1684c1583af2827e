"""Ctrl-C: a reading command ends at once, a change first lets its running host calls end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vgpumgr.cli.failure import report, wants_json
from vgpumgr.cli.output import say
from vgpumgr.model.errors import Interrupted, VgpumgrError

# How long the second Ctrl-C waits for its last words to be written down.
_BRIEF_S = 2.0
AFTER_A_CHANGE = "vgpumgr operation list --open"


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

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(_BRIEF_S)


def _end(*, next: str) -> None:
    """End without waiting for any thread."""
    code = report(Interrupted("interrupted", next=next), debug=False, as_json=wants_json(sys.argv))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
