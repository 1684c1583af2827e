"""A listener of the events of one server, that comes again with its last id whenever it must."""

from __future__ import annotations

import threading
import time
from http.client import HTTPException
from typing import Any

from tests.apiserver import ApiServer

AGAIN_S = 0.1


class EventListener:
    """Hears, in a thread of its own, every event after ``after``."""

    def __init__(self, server: ApiServer, after: int) -> None:
        self.heard: list[tuple[int, dict[str, Any]]] = []
        self.connections = 0
        self._after = after
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def last(self) -> int:
        """The number of the last record that was heard."""
        return self.heard[-1][0] if self.heard else self._after

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self.connections += 1
                for event in self._server.events(after=self.last):
                    self.heard.append(event)
                    if self._ended.is_set():
                        return
            except (OSError, HTTPException, AssertionError, ValueError):
                pass  # a server that is killed: once more, from the last one
            self._ended.wait(AGAIN_S)

    def reach(self, seq: int, longest_s: float) -> bool:
        """Wait until it has heard of a record; False where it does not."""
        until = time.monotonic() + longest_s
        while self.last < seq and time.monotonic() < until:
            time.sleep(0.05)
        return self.last >= seq

    def end(self) -> None:
        """Hear no more."""
        self._ended.set()
