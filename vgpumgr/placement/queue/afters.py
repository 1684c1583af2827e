"""Who is after whom."""

from __future__ import annotations

from collections.abc import Collection


class Afters:
    """Which names have ended. A name that nobody knows has not: its end was never seen."""

    def __init__(self, ended: Collection[str]) -> None:
        self._ended = set(ended)
        self._after: dict[str, tuple[str, ...]] = {}
        self._others: dict[str, list[str]] = {}

    def add(self, name: str, after: tuple[str, ...]) -> None:
        """It waits, and starts when all of ``after`` have ended."""
        self._ended.discard(name)
        self._after[name] = after
        for other in after:
            self._others.setdefault(other, []).append(name)

    def open(self, name: str) -> tuple[str, ...]:
        """Those it is after that have not ended."""
        return tuple(each for each in self._after.get(name, ()) if each not in self._ended)

    def begun(self, name: str) -> None:
        """It runs."""
        self._ended.discard(name)

    def ended(self, name: str) -> list[str]:
        """It has ended; who was after it."""
        self._ended.add(name)
        return self._others.pop(name, [])

    def cancelled(self, name: str) -> None:
        """It will not end, as it never starts."""
        self._after.pop(name, None)
