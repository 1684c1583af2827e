"""Give a finished file its name: at once, for good, and over nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_HERE = -100  # AT_FDCWD
_NOREPLACE = 1


def publish(made: Path, path: Path) -> bool:
    """Move ``made`` to ``path``, both on disk when it returns; False when something is there.

    The file never has two names: whoever opens it at once finds it with one.
    """
    _sync(made)
    try:
        if not _renamed(made, path):
            os.link(made, path)
            made.unlink()
    except FileExistsError:
        return False
    _sync(path.parent)
    return True


def _renamed(made: Path, path: Path) -> bool:
    """Rename over nothing; False where the C library or the file system cannot."""
    import ctypes  # rarely needed, and slow to import

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(made), _HERE, os.fsencode(path), _NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(number, os.strerror(number), os.fspath(path))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
