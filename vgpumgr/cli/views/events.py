"""Events of `serve` on stdout: a line each for people, a JSON object each for programs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import time_text
from vgpumgr.cli.terminal import echo, json_text, one_line
from vgpumgr.model.codec import to_plain

if TYPE_CHECKING:
    from vgpumgr.engine.reconcile import Event


class EventPrinter:
    """Prints from any thread. A reader that went away stops nobody's work."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """One event, now."""
        text = event_json(event, time.time()) if self._as_json else event_line(event, time.time())
        with self._lock, suppress(OSError):
            echo(text)


def event_json(event: Event, at: float) -> str:
    """The event without what it has not, and when, in UTC."""
    plain: dict[str, Any] = to_plain(event)
    kind = plain.pop("kind")
    return json_text({"at": time_text(at), "event": kind, **{k: v for k, v in plain.items() if v}})


def event_line(event: Event, at: float) -> str:
    """``2026-11-21T10:00:00Z drift h1: …``, and what to type below it."""
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = f" {event.host}:" if event.host else ""
    next_ = f"\n    next: {one_line(event.next)}" if event.next else ""
    return f"{when} {event.kind}{where} {one_line(event.text)}{next_}"
