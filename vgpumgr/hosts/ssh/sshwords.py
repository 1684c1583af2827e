"""Words and patterns of ssh_config(5)."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from vgpumgr.model.errors import UsageError


def words(line: str, where: str) -> tuple[str, list[str]]:
    """``Keyword args``, ``Keyword=args``, quotes and comments as in ssh_config(5)."""
    line = line.strip()
    if not line or line.startswith("#"):
        return "", []
    keyword = line.replace("=", " ", 1).split(None, 1)[0]
    rest = line[len(keyword) :].lstrip()
    rest = rest[1:] if rest.startswith("=") else rest
    try:
        return keyword.lower(), shlex.split(rest, comments=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def any_of(patterns: list[str], subject: str) -> bool:
    """A pattern list: one must match, and none that is negated with ``!``."""
    folded = subject.lower()
    for pattern in patterns:
        if pattern.startswith("!") and _like(pattern[1:], folded):
            return False
    return any(_like(each, folded) for each in patterns if not each.startswith("!"))


def _like(pattern: str, subject: str) -> bool:
    # ssh_config knows * and ? only: a bracket is an ordinary character there.
    return fnmatchcase(subject, pattern.lower().replace("[", "[[]"))


def included(path: Path, patterns: list[str]) -> Iterator[Path]:
    """Relative names lie beside the file that includes them."""
    for pattern in patterns:
        full = Path(pattern).expanduser()
        base = full if full.is_absolute() else path.parent / full
        yield from (Path(each) for each in sorted(glob.glob(str(base))))  # noqa: PTH207 - absolute patterns
