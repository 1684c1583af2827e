"""Files written durably, and files and sockets opened without following links."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".tmp"
PIECE_BYTES = 1 << 20


def store(path: str, text: str) -> None:
    """Write beside, fsync, rename, fsync the directory: after it returns the file survives."""
    folder = Path(path).parent
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = path + TEMPORARY
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(beside, flags, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(handle)
    Path(beside).replace(path)
    _sync(folder)


def store_private(path: str, data: bytes) -> None:
    """The same for bytes that root alone may read, in a folder that root alone may look into; the
    one above that may be passed through, as libvirt makes it.
    """
    folder = Path(path).parent
    folder.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    beside = path + TEMPORARY
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(beside, flags, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(handle)
    Path(beside).replace(path)
    _sync(folder)


def remove(path: str) -> None:
    """Remove a file, or an empty directory, durably."""
    place = Path(path)
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    else:
        place.unlink()
    _sync(place.parent)


def head(path: str, limit: int, inside: str) -> tuple[bytes, int]:
    """The first ``limit`` bytes and the size of a regular file below the directory ``inside``."""
    with _plain(path, inside) as handle:
        return os.read(handle, limit), os.fstat(handle).st_size


def pieces(path: str, inside: str) -> Iterator[bytes]:
    """All of a regular file below the directory ``inside``, a MiB at a time."""
    with _plain(path, inside) as handle:
        while piece := os.read(handle, PIECE_BYTES):
            yield piece


def dial(path: str, inside: str) -> socket.socket:
    """A connection to the unix socket at ``path``, below the directory ``inside``."""
    with _found(path, inside, os.O_PATH) as handle:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise OSError(errno.ENOTSOCK, "not a socket", path)
        made = socket.socket(socket.AF_UNIX)
        try:
            # By what was looked at: the name may be another's by now.
            made.connect(f"/proc/self/fd/{handle}")
        except BaseException:
            made.close()
            raise
        return made


@contextlib.contextmanager
def _plain(path: str, inside: str) -> Iterator[int]:
    """A regular file below ``inside``, open to be read."""
    # O_NONBLOCK: a FIFO in the pool must not hold us.
    with _found(path, inside, os.O_NONBLOCK) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield handle


@contextlib.contextmanager
def _found(path: str, inside: str, flags: int) -> Iterator[int]:
    """What lies at ``path``, opened without following a link below ``inside``."""
    *folders, name = _below(path, inside)
    with contextlib.ExitStack() as opened:
        folder = _open(inside, os.O_DIRECTORY, None, opened)
        for part in folders:
            folder = _open(part, os.O_DIRECTORY | os.O_NOFOLLOW, folder, opened)
        yield _open(name, os.O_NOFOLLOW | flags, folder, opened)


def _below(path: str, inside: str) -> tuple[str, ...]:
    try:
        parts = Path(path).relative_to(inside).parts
    except ValueError:
        parts = ()
    if not parts or ".." in parts:
        raise OSError(errno.EXDEV, f"not inside {inside}", path)
    return parts


def _open(path: str, flags: int, folder: int | None, opened: contextlib.ExitStack) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    opened.callback(os.close, handle)
    return handle


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
