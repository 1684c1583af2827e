"""What is measured, alike for every arm.

``users_without_desktop_while_startable``: askings that were not answered at once although the GPUs
could have started a desktop for them, then or while they waited. ``used_desktops_taken``: desktops
that were deleted or made anew under their users' hands; a host that is lost is no such thing.
Waiting is from asking to having a desktop, or to giving up. ``gpu_utilisation``: GPU memory of
desktops with users on them, of all there is, on average from 8:00 to 18:00.
``bad_image_desktops``: desktops ever made from the bad image.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.vdi.scene import Times


class Figures:
    """Filled in as the day goes by."""

    def __init__(self, times: Times, units: int) -> None:
        self._times, self._units = times, units
        self._asked: dict[str, float] = {}
        self._late: set[str] = set()
        self._waits: list[float] = []
        self._without = 0
        self._used, self._since, self._area = 0, times.begin, 0.0
        self.taken = 0
        self.bad = 0

    def asked(self, user: str, now: float) -> None:
        """A user would like a desktop."""
        self._asked.setdefault(user, now)

    def waits(self, user: str) -> bool:
        """Whether the user asked and has none yet."""
        return user in self._asked

    def could_start(self, user: str) -> None:
        """The user waits, and the GPUs could start a desktop: counted once for each asking."""
        if user in self._asked and user not in self._late:
            self._late.add(user)
            self._without += 1

    def ended(self, user: str, now: float) -> None:
        """The user has a desktop, or goes home without."""
        since = self._asked.pop(user, None)
        self._late.discard(user)
        if since is not None:
            self._waits.append(now - since)

    def use(self, units: int, now: float) -> None:
        """So much more of the GPUs has users now."""
        begin, end = max(self._since, self._times.busy_from), min(now, self._times.busy_to)
        self._area += self._used * max(0.0, end - begin)
        self._used, self._since = self._used + units, now

    def result(self, now: float) -> dict[str, Any]:
        """The six figures."""
        for user in list(self._asked):
            self.ended(user, now)
        self.use(0, now)
        busy = self._times.busy_to - self._times.busy_from
        p50, p99 = np.percentile(self._waits, (50, 99))
        return {
            "users_without_desktop_while_startable": self._without,
            "used_desktops_taken": self.taken,
            "wait_p50_s": round(float(p50), 1),
            "wait_p99_s": round(float(p99), 1),
            "gpu_utilisation": round(self._area / (self._units * busy), 4),
            "bad_image_desktops": self.bad,
        }
