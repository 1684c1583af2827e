"""Which hosts the ledger says something new of, by the audit trail, read once a round."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from vgpumgr.model.ledger import Ledger

# On PostgreSQL a record may become visible after later ones: as long as its transaction runs.
_WINDOW_S = 180.0
_WINDOW = 1000


class ChangedHosts:
    """Counts readings of the trail that told of something new; by host, the last that named it.

    A cycle of a host remembers :attr:`count` before it reads the ledger; :meth:`since` says later
    whether a change became visible after that. Records that name neither a host nor an operation,
    unless they are of a kind that no host depends on, count for every host. ``monotonic`` gives
    seconds of a clock that never goes back.
    """

    def __init__(self, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._ledger = ledger
        self._monotonic = monotonic
        self._end = ledger.trail_since(None).end
        self._floor = max(0, self._end - _WINDOW)
        self._ends: deque[tuple[float, int]] = deque()
        self._seen: set[tuple[int, str]] = set()
        self._last: dict[str, int] = {}
        self._fleet = 0
        self.count = 0
        self.read()

    def read(self) -> None:
        """Take in what is new in the trail."""
        found = self._ledger.trail_since(self._floor)
        if found.end < self._end:  # a backup was put in its place
            self._seen.clear()
            self._ends.clear()
            self._floor = max(0, found.end - _WINDOW)
            self._tell("")
        self._end = found.end
        for each in found.hosts:
            if each not in self._seen:
                self._seen.add(each)
                self._tell(each[1])
        self._raise_floor()

    def since(self, host: str, count: int) -> bool:
        """Has the trail told of this host, or of the whole fleet, since ``count`` was read?"""
        return max(self._fleet, self._last.get(host, 0)) > count

    def _tell(self, host: str) -> None:
        # The count is raised last: a cycle that begins meanwhile looks once too often.
        if host:
            self._last[host] = self.count + 1
        else:
            self._fleet = self.count + 1
        self.count += 1

    def _raise_floor(self) -> None:
        """What was there ``_WINDOW_S`` ago is complete."""
        now = self._monotonic()
        if not self._ends or self._ends[-1][1] != self._end:
            self._ends.append((now, self._end))
        while self._ends and self._ends[0][0] <= now - _WINDOW_S:
            self._floor = max(self._floor, self._ends.popleft()[1])
            self._seen = {each for each in self._seen if each[0] > self._floor}
