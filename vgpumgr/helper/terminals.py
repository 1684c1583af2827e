"""A pseudoterminal as a connection: that of a guest's serial port, whose other end QEMU has."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import stat
from pathlib import Path
from types import TracebackType

_SLAVE = re.compile(r"/dev/pts/([0-9]{1,7})")
_SLAVE_MAJOR = 136
_PIECE = 4096


class Terminal:
    """Like a socket, as far as a connection needs one. ``shutdown`` wakes who waits."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._woken, self._waker = os.pipe()

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        while self._ready(select.POLLIN):
            try:
                return os.read(self._handle, size)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return b""  # QEMU is gone
        return b""

    def sendall(self, data: bytes) -> None:
        """All bytes, as fast as the guest takes them."""
        view = memoryview(data)
        while view:
            if not self._ready(select.POLLOUT):
                raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._handle, view[:_PIECE]) :]

    def shutdown(self, _how: int) -> None:
        """No more in either direction."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"\0")

    def _ready(self, event: int) -> bool:
        """Wait; False once it was shut down."""
        poll = select.poll()
        poll.register(self._handle, event)
        poll.register(self._woken, select.POLLIN)
        return all(handle != self._woken for handle, _ in poll.poll())

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown(0)
        os.close(self._handle)


def attach(path: str, pid: int) -> Terminal:
    """The pseudoterminal at ``path`` whose other end the process ``pid`` has, for one at a time.

    ENOTTY where it is none, EXDEV where the other end is not that process's: numbers are given
    again, and the terminal may be a person's by now. EBUSY while another is joined to it.
    """
    match = _SLAVE.fullmatch(path)
    if match is None:
        raise OSError(errno.ENOTTY, "not a pseudoterminal", path)
    flags = os.O_RDWR | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    handle = os.open(path, flags)
    try:
        _require_pseudoterminal(handle, path, int(match[1]))
        # While it is open here its number is not given again, so what is seen now stays so.
        _require_other_end(pid, path, handle, int(match[1]))
        _take(handle, path)
    except BaseException:
        os.close(handle)
        raise
    return Terminal(handle)


def _require_pseudoterminal(handle: int, path: str, number: int) -> None:
    found = os.fstat(handle)
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != os.makedev(_SLAVE_MAJOR, number):
        raise OSError(errno.ENOTTY, "not a pseudoterminal", path)


def _require_other_end(pid: int, path: str, handle: int, number: int) -> None:
    if not _has_other_end(pid, path, handle, number):
        raise OSError(errno.EXDEV, f"the other end is not process {pid}'s", path)


def _has_other_end(pid: int, path: str, handle: int, number: int) -> bool:
    """Has the process the master of that number, in the very devpts that we opened the slave in?"""
    try:
        theirs = Path(f"/proc/{pid}/root{path}").stat()
    except OSError:
        return False
    if not os.path.samestat(theirs, os.fstat(handle)):
        return False
    wanted = f"tty-index:\t{number}"
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if wanted in each.read_text().splitlines():
                return True
    return False


def _take(handle: int, path: str) -> None:
    """Two readers would each get a part of what the guest says."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(errno.EBUSY, "another viewer is at it", path) from None
