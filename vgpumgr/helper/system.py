"""The seam: everything the helper touches goes through one System. The simulation replaces it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import importlib
import os
import pwd
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vgpumgr.helper import (
    allowed_programs,
    detached_work,
    durable_files,
    terminals,
)

# A record has at most 8 KiB (CONSOLE_EXT_LOG_MAX); logs of more records are not configured.
_RECORD_BYTES, _MOST_RECORDS = 8192, 1 << 18


def kernel_records(path: str) -> list[str]:
    """What is there now; what is written meanwhile, too. OSError where it may not be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found: list[str] = []
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(handle, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the record was overwritten: the next read gives the oldest that is left
            if not record:
                break
            found.append(record.decode("utf-8", "replace"))
    finally:
        os.close(handle)
    return found


# linux/timex.h: TIME_ERROR is the state of a clock that nobody keeps; struct timex has 208 bytes.
_TIME_ERROR = 5
_TIMEX_BYTES = 256


def synchronised() -> bool:
    """Ask adjtimex(2), which changes nothing when all modes are zero; OSError where it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return bool(state != _TIME_ERROR)


_LOCK_POLLS, _LOCK_PAUSE = 600, 0.1


class System:
    """One host's files, programs and libraries; errors arrive as OSError with an errno.

    Paths are absolute. ``prefix`` is put before each of them (a tree in a test), and taken off
    again by ``real``.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix.rstrip("/")

    def read(self, path: str) -> str:
        """The whole text of a file."""
        return Path(self._at(path)).read_text(encoding="utf-8", errors="replace")

    def write(self, path: str, text: str) -> None:
        """One write to an existing sysfs file; it is never created."""
        handle = os.open(self._at(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        return sorted(entry.name for entry in Path(self._at(path)).iterdir())

    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed; OSError when that cannot be told."""
        try:
            Path(self._at(path)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stamp(self, path: str) -> tuple[int, ...] | None:
        """What shows that a file was written or replaced: its inode, its times of modification and
        change in nanoseconds, its size. No link is followed; None where there is nothing.
        """
        try:
            found = Path(self._at(path)).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def link(self, path: str) -> str | None:
        """What a symbolic link says, as written; None when there is no link."""
        try:
            return str(Path(self._at(path)).readlink())
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
                return None
            raise

    def real(self, path: str) -> str:
        """The path with every link resolved."""
        real = os.path.realpath(self._at(path))
        return real[len(os.path.realpath(self._prefix)) :] if self._prefix else real

    def store(self, path: str, text: str) -> None:
        """Put a file of ours in place durably: fsync, rename, fsync of the directory."""
        durable_files.store(self._at(path), text)

    def store_private(self, path: str, data: bytes) -> None:
        """The same for bytes that no other user may read."""
        durable_files.store_private(self._at(path), data)

    def remove(self, path: str) -> None:
        """Remove a file of ours, or an empty directory, durably."""
        durable_files.remove(self._at(path))

    def read_bytes(self, path: str, limit: int, inside: str) -> tuple[bytes, int]:
        """The first ``limit`` bytes of a regular file below ``inside``, and its size in bytes.

        No link is followed below ``inside`` (ELOOP or ENOTDIR); EXDEV when the path leaves it.
        """
        return durable_files.head(self._at(path), limit, self._at(inside))

    def pieces(self, path: str, inside: str) -> Iterator[bytes]:
        """All of such a file, piece by piece."""
        return durable_files.pieces(self._at(path), self._at(inside))

    def dial(self, path: str, inside: str) -> socket.socket:
        """A connection to a unix socket below ``inside``, by the same rules; ENOTSOCK else."""
        return durable_files.dial(self._at(path), self._at(inside))

    def terminal(self, path: str, pid: int) -> terminals.Terminal | socket.socket:
        """A connection to the pseudoterminal whose other end the process has; EXDEV where it has
        not, EBUSY while another is joined to it.
        """
        return terminals.attach(path, pid)

    def busy(self, path: str) -> bool:
        """Whether opening a VFIO group file says EBUSY; False when there is no such file."""
        try:
            os.close(os.open(self._at(path), os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
            raise
        return False

    def kernel_log(self) -> Sequence[str]:
        """All records that the kernel still has of its log, the oldest first."""
        return kernel_records(self._at("/dev/kmsg"))

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold an exclusive lock; EAGAIN when another holds it for longer than a minute."""
        place = Path(self._at(path))
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._take(handle)
            yield
        finally:
            os.close(handle)

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        """Run a program of the closed list; (exit status, output), 124 when it was cut."""
        return allowed_programs.run(argv, timeout)

    def detached(self, work: Callable[[], Any], seconds: float, alone: str) -> Any:
        """What ``work`` returns (JSON), done in a process that is left alone after ``seconds``:
        ETIMEDOUT. EBUSY while one that was left alone still holds the file ``alone``.
        """
        return detached_work.run(work, seconds, self._at(alone))

    def nvml(self) -> Any:
        """The pynvml module (nvidia-ml-py), or None where it is not installed."""
        try:
            return importlib.import_module("pynvml")
        except ImportError:
            return None

    def root(self) -> bool:
        """Whether we may change things."""
        return os.geteuid() == 0

    def user(self) -> str:
        """Who started the helper, through sudo or not."""
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.geteuid()).pw_name

    def now(self) -> float:
        """Unix time in seconds, to be told: what takes time is polled, never measured by it."""
        return time.time()

    def synchronised(self) -> bool:
        """Whether NTP keeps the clock in step."""
        return synchronised()

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""
        time.sleep(seconds)

    def _at(self, path: str) -> str:
        return self._prefix + path

    def _take(self, handle: int) -> None:
        for _ in range(_LOCK_POLLS):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            self.wait(_LOCK_PAUSE)
        raise OSError(errno.EAGAIN, "another change is at work on this host")
