"""What was done in this process, counted: by rule, by event, by how it ended, by what struck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

# One counter, so that a process's counts travel as one value: (group, word) → times.
Key = tuple[str, str]
TALLY: Counter[Key] = Counter()

# The groups that make an operation: a command, or something that others did.
OPERATIONS = ("rules", "events")


def count(group: str, word: str) -> None:
    """Count one more."""
    TALLY[(group, word)] += 1


def operations(tally: Mapping[Key, int]) -> int:
    """How many commands and events."""
    return sum(times for (group, _), times in tally.items() if group in OPERATIONS)


def grouped(tally: Counter[Key]) -> dict[str, dict[str, int]]:
    """By group, then by word, the most frequent first."""
    groups: dict[str, dict[str, int]] = {}
    for (group, word), times in tally.most_common():
        groups.setdefault(group, {})[word] = times
    return groups
