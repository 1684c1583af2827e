"""How names and times are said to people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


def spanned(names: Sequence[str], shown: int = 2) -> str:
    """``a-01 … a-32`` where the numbers follow each other, else ``a-01, a-03 and 7 more``."""
    if len(names) > shown and _follow(names):
        return f"{names[0]} … {names[-1]}"
    if len(names) <= shown + 1:
        return ", ".join(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown} more"


def ranges(numbers: Iterable[int], between: str = ",") -> str:
    """``0-3,8``, in order."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return between.join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _follow(names: Sequence[str]) -> bool:
    parts = [_NUMBERED.fullmatch(name) for name in names]
    found = [(each[1], int(each[2]), each[3]) for each in parts if each]
    return len(found) == len(names) and all(
        (one[0], one[1] + 1, one[2]) == other for one, other in pairwise(found)
    )


def span_words(seconds: float) -> str:
    """A span of time, rounded up: ``40 s``, ``12 min``, ``4 h``, ``3 d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(max(0.0, seconds))} s"


def clock(at: float) -> str:
    """The local time of day of a Unix time, to the minute: ``10:15``."""
    return datetime.fromtimestamp(at).strftime("%H:%M")


def counted(number: int, word: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
