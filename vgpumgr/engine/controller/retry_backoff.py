"""Growing pauses before the next try of what has failed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

FIRST_S = 1.0
LONGEST_S = 600.0


def backed_off(failures: int, first_s: float, longest_s: float) -> float:
    """1, 2, 4 … times ``first_s``, up to ``longest_s``."""
    enough = math.ceil(math.log2(max(1.0, longest_s / first_s)))
    return float(min(longest_s, first_s * 2 ** min(max(0, failures - 1), enough)))


class RetryBackoff:
    """Pauses that grow with each vain try of an operation. All cycles of a process share them.

    A try has a place ``at`` which it was made (a host), or none. ``monotonic`` gives seconds of a
    clock that never goes back.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._monotonic = monotonic
        self._first_s = first_s
        self._longest_s = longest_s
        self._tried: dict[tuple[str, str], tuple[int, float]] = {}
        self._guard = threading.Lock()

    def ready(self, what: str, at: str = "") -> bool:
        """May it be tried now?"""
        with self._guard:
            return self._tried.get((what, at), (0, 0.0))[1] <= self._monotonic()

    def failed(self, what: str, at: str = "") -> int:
        """Count a vain try; returns the number of vain tries so far."""
        with self._guard:
            tries = self._tried.get((what, at), (0, 0.0))[0] + 1
            pause = backed_off(tries, self._first_s, self._longest_s)
            self._tried[what, at] = (tries, self._monotonic() + pause)
            return tries

    def done(self, what: str) -> None:
        """Forget an operation that has ended, at every place."""
        with self._guard:
            self._tried = {key: tried for key, tried in self._tried.items() if key[0] != what}
