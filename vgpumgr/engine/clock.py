"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""
        time.sleep(seconds)
