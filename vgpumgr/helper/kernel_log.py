"""The kernel's log as ``/dev/kmsg`` gives it: numbered records, the oldest that is kept first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

PATH = "/dev/kmsg"
# CONSOLE_EXT_LOG_MAX and some more: one read gives one record (Linux Documentation/ABI/dev-kmsg).
_RECORD_BYTES = 16 << 10
_MICRO = 1e-6


class LogRecord(NamedTuple):
    """``number`` counts from the boot on and never again; ``at`` is in seconds after the boot."""

    number: int
    at: float
    text: str


def records(path: str) -> Iterator[LogRecord]:
    """Every record that is kept; OSError where the log may not be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            try:
                raw = os.read(handle, _RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:  # overwritten while we read: the next is there
                continue
            found = record(raw) if raw else None
            if not raw:
                return
            if found is not None:
                yield found
    finally:
        os.close(handle)


def record(raw: bytes) -> LogRecord | None:
    """``6,339,5140900,-;NVRM: loading`` and lines of properties; None for another form."""
    head, _, rest = raw.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):
        return None
    return LogRecord(int(fields[1]), int(fields[2]) * _MICRO, rest.partition("\n")[0])
