"""Results of a pure function that are kept by the very objects that it was given."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityMemo(Generic[T]):
    """At least the ``most`` results used last are kept, and less than twice as many.

    What a result was made of is kept with it, so that nothing else gets its identity meanwhile.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[Hashable, tuple[tuple[object, ...], T]] = {}
        self._old: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, parts: tuple[object, ...], values: Hashable, make: Callable[[], T]) -> T:
        """The result for these very ``parts`` and for equal ``values``; ``make`` makes it."""
        key = (*map(id, parts), values)
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None) or (parts, make())
            self._keep(key, found)
        return found[1]

    def _keep(self, key: Hashable, found: tuple[tuple[object, ...], T]) -> None:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = found
