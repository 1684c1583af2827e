"""Deadlines: one thread that cuts what takes too long."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class Deadline:
    """One armed deadline. ``fired`` tells that the call was cut."""

    def __init__(self, seconds: float, cut: Callable[[], None]) -> None:
        self.at = time.monotonic() + seconds
        self.fired = False
        self._seconds = seconds
        self._cut = cut
        self._open = True
        self._lock = threading.Lock()

    def fire(self) -> None:
        """Cut, unless the call has returned in the meantime."""
        with self._lock:
            if not self._open:
                return
            self.fired = True
        # In a thread of its own: a cut that blocks must not hold up other hosts' deadlines.
        threading.Thread(target=self._cut, name="vgpumgr-cut", daemon=True).start()

    def moved(self) -> None:
        """The call shows that it is alive: its time begins anew."""
        self.at = time.monotonic() + self._seconds

    def disarm(self) -> None:
        """The call has returned."""
        with self._lock:
            self._open = False


class Deadlines:
    """The shared timer; its thread starts at the first deadline."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Deadline]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, seconds: float, cut: Callable[[], None]) -> Iterator[Deadline]:
        """Call ``cut`` from another thread if the body takes longer than ``seconds``."""
        deadline = Deadline(seconds, cut)
        self._add(deadline)
        try:
            yield deadline
        finally:
            deadline.disarm()

    def _add(self, deadline: Deadline) -> None:
        with self._changed:
            heapq.heappush(self._waiting, (deadline.at, next(self._order), deadline))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="vgpumgr-deadlines", daemon=True
                )
                self._thread.start()
            elif self._waiting[0][2] is deadline:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().fire()

    def _next(self) -> Deadline:
        with self._changed:
            while True:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                deadline = heapq.heappop(self._waiting)[2]
                if deadline.at <= time.monotonic():
                    return deadline
                # It was moved since it was put here.
                heapq.heappush(self._waiting, (deadline.at, next(self._order), deadline))


DEADLINES = Deadlines()


def side_by_side(jobs: Iterable[Callable[[], None]], within_s: float) -> None:
    """Run all at once; returns when all have ended, or after ``within_s`` seconds."""
    until = time.monotonic() + within_s
    threads = [threading.Thread(target=job, name="vgpumgr-close", daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
