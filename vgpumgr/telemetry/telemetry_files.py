"""The newest figures as files: what the API and commands of the same machine read.

One process writes them at a time; who reads finds a whole one, and sees its age.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vgpumgr.model.codec import dump, from_plain
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.telemetry.telemetry_round import RoundResult
from vgpumgr.telemetry.use_history import UseHistory

SAMPLE, SERIES, HISTORY, LOCK = "figures.json", "metrics.txt", "history.json", "lock"
# Figures of that many rounds ago are no figures of now; what a round takes comes on top.
_ROUNDS, _ROUND_S = 3, 30.0
_MOST_BYTES = 256 << 20


def longest_s(interval_s: float) -> float:
    """The age in seconds up to which figures count."""
    return _ROUNDS * interval_s + _ROUND_S


def _is_of_now(age_s: float, interval_s: float) -> bool:
    """What is from further ahead was written before the clock was put back."""
    return abs(age_s) <= longest_s(interval_s)


class TelemetryFiles:
    """The files in one folder; a folder that is not there has none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[tuple[int, int], FleetSample] | None = None
        self._reading = threading.Lock()
        self._series_seen: tuple[tuple[int, int], bytes] | None = None
        self._history: UseHistory | None = None
        self._history_seen: tuple[tuple[int, int], UseHistory] | None = None

    @contextmanager
    def owned(self) -> Iterator[bool]:
        """Whether this process is the one that writes them, as long as the block lasts."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        handle = os.open(self._folder / LOCK, flags, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(handle)

    def write(self, result: RoundResult) -> None:
        """Replace the files, once a minute the last hour's, too; OSError where they cannot be
        written.
        """
        self._replace(SERIES, result.text.encode())
        self._replace(SAMPLE, dump(result.sample).encode("ascii"))
        with suppress(OSError):
            self._seen = (self._mark(), result.sample)
        if self._history is None:
            self._history = self.history()
        if self._history.add(result.sample.at, result.shares):
            self._replace(HISTORY, self._history.written())

    def sample(self, now: float) -> FleetSample | None:
        """The newest figures; None where there are none of now (Unix seconds)."""
        found = self._read_sample()
        if found is None or not _is_of_now(now - found.at, found.interval_s):
            return None
        return found

    def series(self, now: float, interval_s: float) -> bytes | None:
        """The newest exposition; None where there is none of now. All who ask between two rounds
        have the same bytes: many that scrape at the same moment take no more memory than one.
        """
        path = self._folder / SERIES
        try:
            if not _is_of_now(now - path.stat().st_mtime, interval_s):
                return None
            with self._reading:
                mark = self._mark(SERIES)
                if self._series_seen is None or self._series_seen[0] != mark:
                    self._series_seen = (mark, path.read_bytes())
                return self._series_seen[1]
        except OSError:
            return None

    def history(self) -> UseHistory:
        """How busy GPUs and VMs were in the last hour; empty where that was not kept."""
        path = self._folder / HISTORY
        with suppress(OSError, ValueError):
            mark = self._mark(HISTORY)
            if self._history_seen is not None and self._history_seen[0] == mark:
                return self._history_seen[1]
            if path.stat().st_size <= _MOST_BYTES:
                self._history_seen = (mark, UseHistory.read(path.read_bytes()))
                return self._history_seen[1]
        return UseHistory()

    def _read_sample(self) -> FleetSample | None:
        """Read once for each time that it was written."""
        path = self._folder / SAMPLE
        try:
            status, mark = path.stat(), self._mark()
            if self._seen is None or self._seen[0] != mark:
                if status.st_size > _MOST_BYTES:
                    return None
                found = from_plain(FleetSample, json.loads(path.read_bytes()))
                self._seen = (mark, found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return self._seen[1]

    def _mark(self, name: str = SAMPLE) -> tuple[int, int]:
        status = (self._folder / name).stat()
        return status.st_ino, status.st_mtime_ns

    def _replace(self, name: str, data: bytes) -> None:
        """The draft has one name: there is one writer, and the next one goes over what it left."""
        draft = self._folder / f".{name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(draft, flags, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            draft.replace(self._folder / name)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
