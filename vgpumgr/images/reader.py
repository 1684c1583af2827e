"""A file as the inspector sees it."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A file that can be read anywhere."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from there; fewer only where the file ends."""
