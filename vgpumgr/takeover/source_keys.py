"""The keys of one description: each is named once, as kept, changed or lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

UNKNOWN = "unknown: nothing here stands for it"
_MOST_SHOWN = 60
_NUMBERED = re.compile(r"([a-z]+)([0-9]{1,4})")


class Fate(StrEnum):
    """What becomes of a key."""

    KEPT = "kept"
    CHANGED = "changed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """What becomes of one key of the source, with a sentence for people."""

    key: str
    fate: Fate
    text: str


class SourceKeys:
    """A description's keys with their values. What no reader names is lost, and said to be."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._found: dict[str, SourceFinding] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def get(self, key: str, default: str = "") -> str:
        """The value; it is not named by that."""
        return self._values.get(key, default)

    def numbered(self, stem: str) -> list[str]:
        """``net`` → ``net0``, ``net1``, … in the order of their numbers."""
        found = [
            (int(match[2]), key)
            for key in self._values
            if (match := _NUMBERED.fullmatch(key)) and match[1] == stem
        ]
        return [key for _, key in sorted(found)]

    def add_options(self, key: str, options: Mapping[str, str]) -> None:
        """The parts of a key's value become keys of their own: ``scsi0.cache``."""
        place = list(self._values)
        at = place.index(key) + 1 if key in place else len(place)
        new = {f"{key}.{name}": value for name, value in options.items()}
        pairs = list(self._values.items())
        self._values = dict([*pairs[:at], *new.items(), *pairs[at:]])

    def kept(self, key: str, text: str) -> None:
        """The VM has the same."""
        self._say(key, Fate.KEPT, text)

    def changed(self, key: str, text: str) -> None:
        """The VM has something else in its place."""
        self._say(key, Fate.CHANGED, text)

    def lost(self, key: str, text: str) -> None:
        """The VM has nothing in its place."""
        self._say(key, Fate.LOST, text)

    def findings(self) -> tuple[SourceFinding, ...]:
        """One for each key, in the order of the description."""
        return tuple(
            self._found.get(key) or SourceFinding(shown(key), Fate.LOST, UNKNOWN)
            for key in self._values
        )

    def _say(self, key: str, fate: Fate, text: str) -> None:
        if key in self._values:
            self._found.setdefault(key, SourceFinding(shown(key), fate, text))


def escaped(text: str) -> str:
    """A text that may be printed: what cannot be is written out."""
    return text if text.isprintable() else ascii(text)[1:-1]


def shown(value: str) -> str:
    """A word of the source as it may be printed: escaped where it needs that, and cut."""
    text = escaped(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def whole(text: str, most: int = 1 << 62) -> int | None:
    """A whole number up to ``most``; None for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        return None
    return int(text) if int(text) <= most else None


def is_on(text: str) -> bool:
    """Whether a switch of the source is on."""
    return text.strip().lower() in {"1", "on", "yes", "true", "enabled"}
