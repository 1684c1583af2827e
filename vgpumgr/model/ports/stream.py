"""Bytes both ways."""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """A connection. One thread may send while another receives."""

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end. OSError when broken."""

    def sendall(self, data: bytes) -> None:
        """All bytes. OSError when broken."""

    def close(self) -> None:
        """Let go; a blocked recv returns. A second time does nothing."""
