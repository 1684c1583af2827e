"""Give a finished file its name: at once, for good, and over nothing."""

from __future__ import annotations

import os
from pathlib import Path


def publish(made: Path, path: Path) -> bool:
    """Link ``made`` to ``path``, both on disk when it returns; False when something is there."""
    _sync(made)
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    _sync(path.parent)
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
