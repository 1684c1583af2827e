"""The fair write lock of a ledger file: writers take it in the order of their arrival.

SQLite's own waiters sleep and look again, ever more rarely: of many, some never find
the lock free. The kernel wakes those who wait for a file lock in their order, and a
process that dies leaves the line. SQLite's lock stays the referee, so a process that
finds no line goes straight to it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class WriteLock:
    """The line of one ledger file: the lock of a folder that is its own.

    A folder that is not there has no line: nobody has claimed anything on that ledger yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def turn(self, patience_s: float) -> Iterator[bool]:
        """Our turn, until the block ends; False once nobody had one for ``patience_s``."""
        place = self._place()
        if place is None:
            yield True
            return
        try:
            yield place.reached(patience_s)
        finally:
            place.leave()

    def _place(self) -> _QueuedWriter | None:
        with suppress(OSError):
            return _QueuedWriter(os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return None


class _QueuedWriter:
    """One place in the line. The kernel gives a lock no deadline, so a thread waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._here = threading.Event()
        self._left = False
        self._guard = threading.Lock()

    def reached(self, patience_s: float) -> bool:
        """Wait for our turn for as long as the line moves; False where it does not."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._here.set()
        except BlockingIOError:
            threading.Thread(target=self._wait, name="ledger line", daemon=True).start()
        except OSError:  # a file system without locks has no line
            self._here.set()
        seen = self._moves()
        while not self._here.wait(patience_s):
            before, seen = seen, self._moves()
            if seen == before:
                return False
        with suppress(OSError):
            os.utime(self._descriptor)
        return True

    def leave(self) -> None:
        """Let the next one in; from a place still waited for, as soon as it is reached."""
        with self._guard:
            self._left = True
            if self._here.is_set():
                os.close(self._descriptor)

    def _moves(self) -> int:
        """Another number after each turn: whoever has it touches the folder."""
        return os.fstat(self._descriptor).st_mtime_ns

    def _wait(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            self._here.set()
            if self._left:
                os.close(self._descriptor)
