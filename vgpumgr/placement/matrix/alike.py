"""Hosts that every type finds equally good, told by a digest of their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vgpumgr.placement.matrix.wants import Ints


class Alike:
    """``group[host]`` is a small number, equal for hosts whose digests are."""

    def __init__(self, digests: Sequence[int]) -> None:
        self._number: dict[int, int] = {}
        self._hosts: Counter[int] = Counter()
        self._spare: list[int] = []
        self.digests = list(digests)
        self.group: Ints = np.array([self._join(digest) for digest in digests], np.int64)

    def put(self, host: int, digest: int) -> None:
        """The host has changed to this digest."""
        self._leave(self.digests[host])
        self.digests[host] = digest
        self.group[host] = self._join(digest)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order."""
        self.digests = [self.digests[number] for number in order.tolist()]
        self.group = self.group[order]

    def examples(self) -> Ints:
        """By group a host of it, -1 for groups that are empty."""
        found = np.full(len(self._number) + len(self._spare), -1)
        found[self.group] = np.arange(len(self.group))
        return found

    def _join(self, digest: int) -> int:
        self._hosts[digest] += 1
        number = self._number.get(digest)
        if number is None:
            number = self._spare.pop() if self._spare else len(self._number)
            self._number[digest] = number
        return number

    def _leave(self, digest: int) -> None:
        self._hosts[digest] -= 1
        if not self._hosts[digest]:
            del self._hosts[digest]
            self._spare.append(self._number.pop(digest))
