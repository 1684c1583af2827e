"""The kernel's log as ``/dev/kmsg`` gives it, record by record."""

from __future__ import annotations

import os

# A record has at most 8 KiB (CONSOLE_EXT_LOG_MAX); logs of more records are not configured.
_RECORD_BYTES, _MOST = 8192, 1 << 18


def read(path: str) -> list[str]:
    """What is there now; what is written meanwhile, too. OSError where it may not be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found: list[str] = []
    try:
        for _ in range(_MOST):
            try:
                record = os.read(handle, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the record was overwritten: the next read gives the oldest that is left
            if not record:
                break
            found.append(record.decode("utf-8", "replace"))
    finally:
        os.close(handle)
    return found
