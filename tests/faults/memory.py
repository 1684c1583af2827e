"""Where ledgers lie: SIGKILL takes no memory of the kernel's, so a file system in it is as durable.

What is synced is synced all the same, only to memory: a process that dies loses what it had not
written, and nothing else, on a disk as here. Power cuts are another test's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_SHM = Path("/dev/shm")
_ROOM = 1 << 30


def folder() -> str | None:
    """A file system in memory with enough room; None: wherever temporary files go."""
    return str(_SHM) if _SHM.is_dir() and shutil.disk_usage(_SHM).free > _ROOM else None
