"""What `serve` tells, on its way to the trail: a thread of its own writes it, none waits for it."""

from __future__ import annotations

import threading
from collections import deque

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit
from vgpumgr.model.notification import NOTICES, Notice

_MOST = 10_000
_BLOCK = 500


class NoticeBuffer:
    """Events on their way to the trail. Where the ledger is away for long the oldest are lost."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque(maxlen=_MOST)
        self._lock = threading.Lock()

    def telling(self, emit: Emit) -> Emit:
        """What emits an event, and keeps the notices among them."""

        def tell(event: ControllerEvent) -> None:
            self.keep(event)
            emit(event)

        return tell

    def keep(self, event: ControllerEvent) -> None:
        """Keep what is a notice."""
        kind = str(event.kind)
        word = kind if kind in NOTICES else "power" if kind.startswith("power-") else ""
        if not word:
            return
        text = f"{event.text}; {event.next}" if event.next else event.text
        found = Notice(
            kind=word,
            text=text,
            host=event.host,
            vm=event.vm,
            gpu=event.gpu,
            operation=event.operation,
        )
        with self._lock:
            self._waiting.append(found)

    def take(self) -> tuple[Notice, ...]:
        """The oldest of them; they stay until they are :meth:`done`."""
        with self._lock:
            return tuple(self._waiting)[:_BLOCK]

    def done(self, notices: tuple[Notice, ...]) -> None:
        """They are in the trail."""
        with self._lock:
            for each in notices:
                if self._waiting and self._waiting[0] is each:
                    self._waiting.popleft()
