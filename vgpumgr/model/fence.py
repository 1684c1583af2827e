"""How a host is switched off from outside, and how one knows that it is off."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A fence agent says by its exit code that a host is off: 0 is on, 2 is off (FenceAgentAPI).
SAID_OFF = frozenset({0, 2})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A host's ``fence:`` block: two programs that run on the controller, as argument lists.

    ``off`` switches the host off, ``status`` says whether it is: see :func:`says_off`.
    """

    off: tuple[str, ...]
    status: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Why a host is surely off: what ``status`` said, or who gave their word for it."""

    host: str
    how: str


def says_off(code: int | None, answer: str) -> bool:
    """Exit code 0 or 2, and one line with one word on the state: ``off``, in any case, at its end.

    ``Chassis Power is off`` (ipmitool), ``Status: OFF`` (fence agents). Everything else is unknown,
    and so no proof: two lines (a server with two feeds, of which one is on), a line that speaks of
    more than one thing, or that says ``not off``.
    """
    lines = answer.strip().splitlines()
    if code not in SAID_OFF or len(lines) != 1:
        return False
    line = lines[0].lower()
    return _TELLING.findall(line) == ["off"] and line.split()[-1] == "off"


# Words on a state, or on whether it is known. A line with any of them beside ``off`` is no proof.
_TELLING = re.compile(
    r"\b(off|on|up|down|active|alive|standby|sleeping|suspended|half|partly|partially|mixed|some|was"
    r"|before|last|pending|soon|not|no|never|isn.t|cannot|can.t|unknown|error|failed|failure|timeout"
    r"|or|and|but)\b"
)
_SECRET = re.compile(r"(pass(word|wd|phrase)?|passw|secret|token)=.+|--?(pass(word|wd)?)$", re.I)
_CREDENTIALS = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def inline_secret(argv: Sequence[str]) -> str:
    """The argument that holds a password, as far as one can tell; empty where none does.

    Anybody on this machine sees the arguments of a program, and everybody the ledger's.
    """
    return next(iter(_secrets(argv)), "")


def _secrets(argv: Sequence[str]) -> Iterator[str]:
    program = posixpath.basename(argv[0]) if argv else ""
    letter = "-P" if program.startswith("ipmi") else "-p" if program.startswith("fence_") else None
    for argument in argv[1:]:
        glued = letter is not None and argument.startswith(letter)
        if glued or _SECRET.search(argument) or _CREDENTIALS.search(argument):
            yield argument
