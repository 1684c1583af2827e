"""Who works on an operation: an OS file lock each, so that a dead worker never blocks."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from urllib.parse import quote

from vgpumgr.model.errors import LedgerError


class OperationLocks:
    """Locks under one folder. The kernel drops them when their process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}
        self._guard = threading.Lock()

    def claim(self, operation: str) -> bool:
        """Become the worker until :meth:`close`; False while another live worker is."""
        with self._guard:
            if operation in self._held:
                return True
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                descriptor = _lock(self._path(operation))
            except OSError as error:
                raise LedgerError(
                    f"operation {operation} cannot be claimed",
                    why=f"{error.strerror}: {error.filename}",
                    next=f"ls -ld {self._folder}",
                ) from error
            if descriptor is None:
                return False
            self._held[operation] = descriptor
            return True

    def close(self) -> None:
        """Let go of every operation."""
        with self._guard:
            while self._held:
                operation, descriptor = self._held.popitem()
                # Removed while still locked: whoever opened it meanwhile sees that it is gone.
                self._path(operation).unlink(missing_ok=True)
                os.close(descriptor)

    def _path(self, operation: str) -> Path:
        return self._folder / quote(operation, safe="")


def _lock(path: Path) -> int | None:
    """An open descriptor that holds the lock of the file now at ``path``; None when taken."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
