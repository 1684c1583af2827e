"""To whom room is promised: the first few in line that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vgpumgr.model.queue import Waiting
from vgpumgr.placement.queue.promises import Promises


class Heads:
    """Who was promised room keeps it, unless somebody of a higher class needs it."""

    def __init__(self, promises: Promises) -> None:
        self._promises = promises
        self._denied: set[str] = set()

    def new_turn(self) -> None:
        """Who found no host without a promise may try once more."""
        self._denied.clear()

    def consider(
        self,
        owner: str,
        unit: Sequence[Waiting],
        rank: Callable[[str], float],
        now: float,
    ) -> bool:
        """Promise room to who does not fit, if it may have any; whether another lost its own.

        ``rank`` tells an owner's class of priority by now.
        """
        owners = self._promises.owners
        if owner in owners or owner in self._denied or not self._promises.may_have(owner):
            return False
        lost = self._promises.full and self._displace(owners, owner, rank)
        if not self._promises.full:
            self._promises.give(owner, [each.vm for each in unit], now)
            if owner not in self._promises.owners:
                self._denied.add(owner)
        return lost

    def _displace(self, owners: Sequence[str], owner: str, rank: Callable[[str], float]) -> bool:
        lowest = min(owners, key=rank)
        return rank(lowest) < rank(owner) and self._promises.drop(lowest)
