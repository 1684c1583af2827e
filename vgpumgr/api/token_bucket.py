"""A rate with a burst: a number at once, then a number a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """``rate`` a second, at most ``burst`` at once; safe to share between threads."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left = burst
        self._at = clock()

    def take(self) -> bool:
        """Is there one left? Then it is taken."""
        with self._lock:
            self._fill()
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def put(self) -> None:
        """One that was taken is there again."""
        with self._lock:
            self._fill()
            self._left = min(self._burst, self._left + 1)

    def wait_s(self) -> float:
        """How long until there is one; 0 where there is."""
        with self._lock:
            self._fill()
            return max(0.0, (1 - self._left) / self.rate)

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self.rate)
        self._at = now
