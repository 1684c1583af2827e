"""The ledger's one file: one name, no other file in its place, and published whole.

SQLite's log, the claims and the line of writers lie beside the file, found by its name. Two names
of one file would have two of each, and two workers would never meet. A symbolic link and another
path of the folder (a bind mount of it) lead to the same name; a hard link and a bind mount of the
file alone do not.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from vgpumgr.model.errors import ClaimLost, Conflict

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def require_one_name(path: Path) -> None:
    """Conflict where the file has another name too, or is a mount of its own."""
    found = path.stat()
    names = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    if names > 1:
        raise Conflict(
            f"the ledger {path} is one file under {names} names",
            why="its log and its locks lie beside a name: a process that "
            "uses the other name would miss them",
            next=f"find {path.parent} -xdev -samefile {path}   (remove all names but one)",
        )
    if _is_mount(path):
        raise Conflict(
            f"the ledger {path} is mounted as a single file",
            why="its log and its locks lie beside it, outside of the mount",
            next=f"umount {path}, and mount the folder that the ledger is in",
        )


def same_file(path: Path) -> Callable[[], None]:
    """A check for later: ClaimLost once another file lies at the path, or none."""
    there = _identity(path)

    def require() -> None:
        if there is not None and _identity(path) != there:
            raise ClaimLost(
                "the ledger's file was replaced while this process worked with it",
                why=f"{path} is not the file that was opened",
                next="the same command again; then vgpumgr operation list",
            )

    return require


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_mount(path: Path) -> bool:
    """Is something mounted on the file itself? Not known where the kernel does not tell."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    return any(_place(line) == os.fspath(path) for line in lines)


def _place(line: str) -> str:
    """Where a mount is (the fifth field, with blanks and backslashes escaped in octal)."""
    fields = line.split()
    place = fields[4] if len(fields) > 4 else ""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), place)


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
