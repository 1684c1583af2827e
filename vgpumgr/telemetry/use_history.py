"""How busy GPUs and VMs' parts of them were, minute by minute, for the last hour.

Sixty bytes each: percent, or that nothing was told. What was told last more than an hour ago is
forgotten, so that the size follows the fleet, and not how long it is watched.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

MINUTES = 60
STEP_S = 60
_UNTOLD = 255
_NOTHING = bytes([_UNTOLD]) * MINUTES
_MOST_ROWS = 200_000


def gpu_key(gpu: str) -> str:
    """Of a GPU by its id in the ledger, which is no VM's."""
    return gpu


def part_key(vm: str, device: str) -> str:
    """Of a VM's (its id) part of a GPU."""
    return f"{vm} {device}"


class UseHistory:
    """Whole minutes; the one that runs is added when it is over. Times are Unix seconds."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._newest = -1
        self._minute = -1
        self._running: dict[str, tuple[int, int]] = {}

    def add(self, now: float, shares: Mapping[str, int]) -> bool:
        """Count what was told now, in percent by key; True: a minute has ended before it.

        A clock that was set back by less than an hour stands still here until it has caught up.
        """
        minute = int(now // STEP_S)
        ended = self._minute >= 0 and minute > self._minute
        if ended:
            self._settle()
        if minute > self._minute or self._minute - minute > MINUTES:
            self._minute = minute
        for key, share in shares.items():
            total, count = self._running.get(key, (0, 0))
            self._running[key] = total + share, count + 1
        return ended

    def shares(self, key: str, now: float) -> list[float | None]:
        """From 0 to 1, a minute each, the oldest first; None where nothing was told. Empty where
        nothing of it is known within the hour.
        """
        row = self._rows.get(key)
        since = int(now // STEP_S) - 1 - self._newest
        if row is None or not 0 <= since < MINUTES:
            return []
        shifted = row[since:] + _NOTHING[:since]
        if shifted == _NOTHING:
            return []
        return [None if each == _UNTOLD else each / 100 for each in shifted]

    def mean_shares(self, vms: Collection[str], now: float) -> list[float | None]:
        """The same of all parts of these VMs (ids) on average, as far as they told something."""
        wanted = frozenset(vms)
        keys = [key for key in self._rows if key.partition(" ")[0] in wanted]
        rows = filter(None, (self.shares(key, now) for key in keys))
        return [_mean(each) for each in zip(*rows, strict=True)]

    def _settle(self) -> None:
        """The running minute becomes the newest of the rows."""
        passed = self._minute - self._newest
        passed = MINUTES if passed < 0 or not self._rows else min(passed, MINUTES)
        shifted = {key: row[passed:] + _NOTHING[:passed] for key, row in self._rows.items()}
        for key, (total, count) in self._running.items():
            if key in shifted or len(shifted) < _MOST_ROWS:
                mean = min(100, max(0, round(total / count)))
                shifted[key] = shifted.get(key, _NOTHING)[:-1] + bytes([mean])
        self._rows = {key: row for key, row in shifted.items() if row != _NOTHING}
        self._newest, self._running = self._minute, {}

    def written(self) -> bytes:
        """As a file keeps it."""
        rows = {key: row.hex() for key, row in self._rows.items()}
        return json.dumps({"newest_minute": self._newest, "percent": rows}).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> UseHistory:
        """What was written; rows that are none are left out. ValueError: it is no such file."""
        found = json.loads(data)
        try:
            newest, rows = int(found["newest_minute"]), dict(found["percent"])
        except (KeyError, TypeError) as error:
            raise ValueError("no history of use") from error
        history = cls()
        history._newest = newest
        for key, text in rows.items():
            row = _row(text)
            if row is not None and len(history._rows) < _MOST_ROWS:
                history._rows[key] = row
        return history


def _mean(shares: Sequence[float | None]) -> float | None:
    told = [each for each in shares if each is not None]
    return round(sum(told) / len(told), 4) if told else None


def _row(text: object) -> bytes | None:
    try:
        row = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    is_one = len(row) == MINUTES and all(each <= 100 or each == _UNTOLD for each in row)
    return row if is_one else None
