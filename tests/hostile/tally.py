"""What was tried, what it cost beside the same with the truth, and the figures of it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# A command under a lie may take so many times what it takes with the truth, and this.
TIMES = 2.0
SLACK_S, SLACK_MIB = 0.3, 8.0
_COUNTS = ("possible", "mutations", "unheard", "commands", "refused", "alone", "understood_anew")


@dataclass(slots=True)
class Tally:
    """CPU seconds by command; ``fields`` counts the lies that were heard, ``refused`` the commands
    that met an error under them, ``alone`` lies that others kept unheard, ``weighed`` has CPU
    seconds and peak MiB of commands in processes of their own.
    """

    possible: int = 0
    mutations: int = 0
    unheard: int = 0
    commands: int = 0
    refused: int = 0
    alone: int = 0
    understood_anew: int = 0
    clean_s: dict[str, list[float]] = field(default_factory=dict)
    lied_s: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    fields: Counter[str] = field(default_factory=Counter)
    weighed: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """The same of another part."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for into, more in (
            (self.clean_s, other.clean_s),
            (self.lied_s, other.lied_s),
            (self.weighed, other.weighed),
        ):
            for name, found in more.items():
                into.setdefault(name, []).extend(found)  # type: ignore[attr-defined]
        self.faults += other.faults
        self.fields += other.fields

    def weigh(
        self, name: str, of: str, clean: tuple[float, float], lied: tuple[float, float]
    ) -> None:
        """Write down what a command cost; too much is a fault of ours."""
        self.weighed.setdefault(name, []).append((lied[0] / clean[0], lied[1] / clean[1]))
        if lied[0] > TIMES * clean[0] + SLACK_S or lied[1] > TIMES * clean[1] + SLACK_MIB:
            self.faults.append(f"{of}: {name}: {lied} s and MiB, with the truth {clean}")

    def plain(self) -> dict[str, Any]:
        """For JSON: the total first, then field by field."""
        return {
            "faults": len(self.faults),
            "fields": len(self.fields),
            "least_per_field": min(self.fields.values(), default=0),
            "mutations": self.mutations,
            "unheard": self.unheard,
            "possible": self.possible,
            "told_alone": self.alone,
            "commands_refused": self.refused,
            "understood_anew": self.understood_anew,
            "commands": self.commands,
            "most_beside_the_truth": {
                name: {
                    "cpu": _most(each[0] for each in of),
                    "memory": _most(each[1] for each in of),
                }
                for name, of in sorted(self.weighed.items())
            },
            "cpu_s": {name: self._beside(name) for name in sorted(self.lied_s)},
            "verbs": _by_verb(self.fields),
            "per_field": dict(sorted(self.fields.items())),
            "fault_list": self.faults,
        }

    def _beside(self, name: str) -> dict[str, float]:
        clean, lied = self.clean_s.get(name, []), self.lied_s[name]
        found = {"lied_median": statistics.median(lied), "lied_most": max(lied)}
        if clean:
            found |= {"clean_median": statistics.median(clean), "clean_most": max(clean)}
            found["times"] = found["lied_median"] / found["clean_median"]
        return {part: round(number, 4) for part, number in found.items()}


def _most(found: Iterable[float]) -> float:
    return round(max(found), 2)


def _by_verb(fields: Mapping[str, int]) -> dict[str, list[int]]:
    """Fields and lies of each verb."""
    found: dict[str, list[int]] = {}
    for name, lies in sorted(fields.items()):
        of = found.setdefault(name.split(" ")[0], [0, 0])
        of[0], of[1] = of[0] + 1, of[1] + lies
    return found
