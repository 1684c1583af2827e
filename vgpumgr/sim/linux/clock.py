"""A simulated host's time: waiting puts it forward instead of taking it."""

from __future__ import annotations

import time


class Clock:
    """Unix time in seconds, ahead of ours by what was waited for."""

    def __init__(self) -> None:
        self._waited = 0.0

    def now(self) -> float:
        """The host's time."""
        return time.time() + self._waited

    def wall(self) -> float:
        """What its clock shows: waiting takes no time, so it agrees with ours."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._waited += seconds
