"""Desktops that are kept for a group in a window of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """``count`` × ``profile`` for ``group`` from ``start`` to before ``end`` (Unix seconds)."""

    id: str
    group: str
    profile: str
    count: int
    start: float
    end: float

    def holds(self, start: float, end: float) -> bool:
        """Whether it touches the time from ``start`` to ``end``, both of it."""
        return self.start <= end and start < self.end
