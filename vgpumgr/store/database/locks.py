"""Locks of live processes: names that they hold, and the turn to write."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

from vgpumgr.model.errors import ClaimLost, LedgerError


class ProcessLocks(Protocol):
    """Names this process holds. Whoever dies, however, holds nothing any more."""

    @property
    def worker(self) -> str:
        """Who we are in ``operation.worker``: ``MACHINE:PID:…``, never anybody else's."""

    @property
    def may_outlive(self) -> bool:
        """Can a process still run whose claims are gone? True where a server judges that."""

    def claim(self, name: str) -> bool:
        """Hold the name until :meth:`release`; False while another live process does."""

    def is_held(self, name: str) -> bool:
        """Does any live process hold the name? Nothing is claimed."""

    def held(self) -> frozenset[str]:
        """What this process holds."""

    def others(self) -> tuple[str, ...]:
        """Who else holds anything, in words."""

    def require(self) -> None:
        """ClaimLost unless everything claimed is surely still held."""

    def release(self, name: str) -> None:
        """Let go of one name; one that is not held is no error."""

    def close(self) -> None:
        """Let go of all."""


_OPERATION = "operation:"


def operation_lock(operation_id: str) -> str:
    """The name that an operation is claimed by."""
    return _OPERATION + operation_id


def operation_ids(names: Iterable[str]) -> tuple[str, ...]:
    """The operations among claimed names."""
    return tuple(each.removeprefix(_OPERATION) for each in names if each.startswith(_OPERATION))


def new_worker() -> str:
    """A name for this process that no other ever has."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


def lock_lost(why: str) -> ClaimLost:
    """The error of a process that must not go on."""
    return ClaimLost(
        "this process no longer owns the operation it worked on",
        why=why,
        next="vgpumgr operation list, then vgpumgr operation resume "
        "ID if no other process resumed it",
    )


def locks_folder(ledger: Path) -> Path:
    """Where the locks of a ledger file are."""
    return ledger.with_name(f"{ledger.name}.locks")


class FileLocks:
    """Locks under one folder. The kernel drops them when their process ends, however it ends."""

    may_outlive = False

    def __init__(self, folder: Path) -> None:
        self.worker = new_worker()
        self._folder = folder
        self._held: dict[str, int] = {}
        self._guard = threading.Lock()

    def claim(self, name: str) -> bool:
        """Hold the name until :meth:`release`; False while another live process does."""
        with self._guard:
            if name in self._held:
                return True
            descriptor = self._locked(name)
            if descriptor is None:
                return False
            self._held[name] = descriptor
            return True

    def is_held(self, name: str) -> bool:
        """Does any live process hold the name? Nothing is claimed."""
        with self._guard:
            if name in self._held:
                return True
            return _is_locked(self._path(name))

    def held(self) -> frozenset[str]:
        """What this process holds."""
        with self._guard:
            return frozenset(self._held)

    def others(self) -> tuple[str, ...]:
        """What other processes hold."""
        names = [unquote(path.name) for path in self._folder.glob("*")]
        mine = self.held()
        return tuple(each for each in sorted(names) if each not in mine and self.is_held(each))

    def require(self) -> None:
        """ClaimLost where a lock's file is gone from its place: another may hold a new one there.

        Otherwise the kernel takes no lock from a process that lives.
        """
        with self._guard:
            for name, descriptor in self._held.items():
                if not _is_at(descriptor, self._path(name)):
                    raise lock_lost(f"the lock {self._path(name)} was removed or replaced")

    def release(self, name: str) -> None:
        """Let go of one name; one that is not held is no error."""
        with self._guard:
            descriptor = self._held.pop(name, None)
            if descriptor is not None:
                self._let_go(name, descriptor)

    def close(self) -> None:
        """Let go of all."""
        for name in self.held():
            self.release(name)

    def _locked(self, name: str) -> int | None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            return _lock(self._path(name))
        except OSError as error:
            raise LedgerError(
                f"{name} cannot be claimed",
                why=f"{error.strerror}: {error.filename}",
                next=f"ls -ld {self._folder}",
            ) from error

    def _let_go(self, name: str, descriptor: int) -> None:
        # Removed while still locked: whoever opened it meanwhile sees that it is gone.
        self._path(name).unlink(missing_ok=True)
        os.close(descriptor)

    def _path(self, name: str) -> Path:
        return self._folder / quote(name, safe="")


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


def _is_locked(path: Path) -> bool:
    """Does a live process hold the lock of the file there? Nothing is written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerError(
            f"{path.name} cannot be looked at",
            why=f"{error.strerror}: {error.filename}",
            next=f"ls -ld {path.parent}",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


class WriteLock:
    """The line of one ledger file: the lock of a folder that is its own.

    SQLite's own waiters sleep and look again, ever more rarely: of many, some never find the lock
    free. The kernel wakes those who wait for a file lock in their order, and a process that dies
    leaves the line. SQLite's lock stays the referee, so a process that finds no line goes straight
    to it.

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
