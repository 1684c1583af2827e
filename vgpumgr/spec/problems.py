"""What is wrong with a file: every finding with its place, and one error that holds them all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpumgr.model.errors import UnknownProfile, UsageError

# The source's name of a document made from flags.
COMMAND_LINE = "the command line"
MAX_PROBLEMS = 50
MAX_SHOWN = 60

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class FileMark:
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One finding. ``path`` is the key path (``gpus[0].profile``), empty for a whole document."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        # Flags have no lines that the user could look at.
        place = "" if self.file == COMMAND_LINE else f":{self.line}:{self.column}"
        where = f"{self.file}{place}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class SpecError(UsageError):
    """A file that cannot be used; ``problems`` are its findings in the order of the file."""

    code = "usage.spec"

    def __init__(self, problems: tuple[SpecProblem, ...]) -> None:
        what = "flags" if problems[0].file == COMMAND_LINE else "file"
        super().__init__(_summary(problems), next=f"correct the {what} and run the command again")
        self.problems = problems

    def as_dict(self) -> dict[str, object]:
        """The error's JSON with the findings as objects."""
        keys = ("file", "line", "column", "path", "message")
        found = [{key: getattr(each, key) for key in keys} for each in self.problems]
        return {**super().as_dict(), "problems": found}


class UnknownProfiles(SpecError, UnknownProfile):
    """A file whose only fault is profile names that nobody knows."""

    code = UnknownProfile.code


@dataclass(slots=True)
class SpecFindings:
    """Collects problems of one file; after ``MAX_PROBLEMS`` further ones are only counted."""

    file: str
    found: list[SpecProblem] = field(default_factory=list)
    more: int = 0
    profiles: int = 0

    def add(self, mark: FileMark, message: str, path: Path = ()) -> None:
        """Record one finding."""
        if self.full:
            self.more += 1
        else:
            where = (self.file, mark.line, mark.column)
            self.found.append(SpecProblem(*where, dotted(path), message))

    @property
    def full(self) -> bool:
        """Whether further findings are only counted: their texts need not be made."""
        return len(self.found) >= MAX_PROBLEMS

    def raise_if_any(self) -> None:
        """Raise SpecError with all findings, in the order of the file."""
        if not self.found:
            return
        found = sorted(self.found, key=lambda each: (each.line, each.column))
        if self.more:
            last = found[-1]
            message = f"and {self.more} more"
            found.append(SpecProblem(last.file, last.line, last.column, "", message))
        kind = UnknownProfiles if self.profiles == len(self.found) else SpecError
        raise kind(tuple(found))


def dotted(path: Path) -> str:
    """``("gpus", 0, "profile")`` → ``gpus[0].profile``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{_key(part)}" if text else _key(part)
    return text


def _key(text: str) -> str:
    """A user's key as it stands, or escaped and cut where it is unknown."""
    return text if text.isprintable() and len(text) <= MAX_SHOWN else shown(text)


def shown(value: object) -> str:
    """A user's value, quoted, escaped and cut, as an error may print it."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def either(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def nearest(value: object, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means."""
    by_folded = {each.casefold(): each for each in known}
    folded = str(value)[:MAX_SHOWN].casefold()
    return next((by_folded[near] for near in difflib.get_close_matches(folded, by_folded, 1)), None)


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """``; did you mean …?`` for a value near a known one, else nothing."""
    near = nearest(value, known)
    return f"; did you mean {near}?" if near else ""


def _summary(problems: tuple[SpecProblem, ...]) -> str:
    if len(problems) == 1:
        return str(problems[0])
    lines = "\n".join(f"  {each}" for each in problems)
    return f"{problems[0].file} has {len(problems)} problems\n{lines}"
