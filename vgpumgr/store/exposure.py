"""Who else can read or change a ledger's file: its mode, its folder's, and whose they are."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from vgpumgr.model.keeping import Problem

_BESIDE = ("", "-wal", "-shm")  # what SQLite keeps of one database
_WRITERS = stat.S_IWGRP | stat.S_IWOTH
_READERS = stat.S_IROTH | stat.S_IXOTH


def exposures(path: Path) -> Iterator[Problem]:
    """Every way in that the file system leaves to others; none where there is no file.

    A ledger holds what VMs start with, and says which host is ours: who writes to it commands the
    hosts. Its group may read it.
    """
    real = path.resolve()
    for name in _BESIDE:
        yield from _of_file(real.with_name(real.name + name))
    if real.exists():
        yield from _of_folder(real.parent)


def _of_file(path: Path) -> Iterator[Problem]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    ways = " and ".join(
        word for word, bits in (("read", _READERS), ("change", _WRITERS)) if found.st_mode & bits
    )
    mend = f"chmod 600 {shlex.quote(str(path))}"
    if ways:
        yield _problem(f"others may {ways} {path}", found, mend)
    yield from _of_owner(path, found)


def _of_folder(folder: Path) -> Iterator[Problem]:
    found = folder.stat()
    if found.st_mode & stat.S_IWOTH:
        what = f"others may put another ledger into {folder}"
        yield _problem(what, found, f"chmod 700 {shlex.quote(str(folder))}")
    yield from _of_owner(folder, found)


def _of_owner(path: Path, found: os.stat_result) -> Iterator[Problem]:
    """Root may do everything anyway, and we work with what is ours."""
    if found.st_uid not in (0, os.geteuid()):
        quoted = shlex.quote(str(path))
        what, why = f"{path} is another user's", f"its owner is uid {found.st_uid}"
        yield Problem(what=what, why=why, next=f"ls -ld {quoted}; chown {os.geteuid()} {quoted}")


def _problem(what: str, found: os.stat_result, mend: str) -> Problem:
    return Problem(what=what, why=f"its mode is {stat.S_IMODE(found.st_mode):04o}", next=mend)
