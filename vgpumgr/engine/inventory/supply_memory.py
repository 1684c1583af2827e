"""The last supplies of each host, by the very values that they were worked out from."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from vgpumgr.model.supply import HostSupply

MOST_HOSTS = 1 << 16
_EACH = 2
"""Of a host that many plans suppose otherwise, the one that is there stays."""


class SupplyMemory:
    """Remembers supplies of a fleet. They are pure functions of their parts: none is ever stale."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[tuple[object, ...], HostSupply], ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._last.values()))

    def of(
        self, host: str, parts: tuple[object, ...], make: Callable[[], HostSupply]
    ) -> HostSupply:
        """The supply of a host for these very ``parts``; ``make`` works it out."""
        known = self._last.get(host, ())
        for before, supply in known:
            if len(before) == len(parts) and all(map(is_, before, parts)):
                return supply
        if len(self._last) >= MOST_HOSTS:
            self._last = {}
        made = make()
        self._last[host] = ((parts, made), *known[: _EACH - 1])
        return made
