"""Who else can read or change a ledger's file: its mode, its folder's, and whose they are."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from functools import reduce
from operator import or_
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
    files = [(each, each.stat()) for each in _files(real) if each.exists()]
    yield from _of_files([each for each in files if each[1].st_mode & (_READERS | _WRITERS)])
    for each, found in files:
        yield from _of_owner(each, found)
    if files:
        yield from _of_folder(real.parent)


def _files(real: Path) -> tuple[Path, ...]:
    return tuple(real.with_name(real.name + each) for each in _BESIDE)


def _of_files(exposed: list[tuple[Path, os.stat_result]]) -> Iterator[Problem]:
    """One word for all: SQLite gives the others the mode of the first."""
    if exposed:
        bits = reduce(or_, (found.st_mode for _, found in exposed))
        ways = " and ".join(
            word for word, way in (("read", _READERS), ("change", _WRITERS)) if bits & way
        )
        mend = shlex.join(["chmod", "600", *(str(path) for path, _ in exposed)])
        yield _problem(f"others may {ways} {exposed[0][0]}", exposed[0][1], mend)


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
