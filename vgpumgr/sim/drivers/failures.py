"""Calls of a GPU's driver that fail for a while, as told by ``sim inject``."""

from __future__ import annotations

from collections import Counter

UNBIND, CREATE, RESET = "unbind", "create", "reset"
# What can be made to fail, besides NVML's functions by their C name.
KINDS = (UNBIND, CREATE, RESET)


class Failures:
    """How often each kind of call still fails, by the GPU's address."""

    def __init__(self) -> None:
        self._left: Counter[tuple[str, str]] = Counter()

    def add(self, address: str, kind: str, count: int) -> None:
        """The next ``count`` calls of the kind fail."""
        self._left[address, kind] += count

    def take(self, address: str, kind: str) -> bool:
        """Does this call fail? It is counted down."""
        if not self._left[address, kind]:
            return False
        self._left[address, kind] -= 1
        return True

    def clear(self) -> None:
        """None fails any more."""
        self._left.clear()

    def words(self, address: str) -> list[str]:
        """What still fails on a GPU: ``fail unbind 2``."""
        return [
            f"fail {kind} {count}"
            for (where, kind), count in self._left.items()
            if where == address and count
        ]
