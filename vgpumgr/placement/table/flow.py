"""A pool of alike GPUs as a fluid: shares of GPUs by class of states, and how they flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.table.space import StateSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TIME = 0.05
"""Length of a step towards balance, in mean lifetimes of a VM."""

_FEW = 1e-9


@dataclass(frozen=True, slots=True)
class _Reached:
    """One part under a policy: the classes that take it, best first, and what they become.

    ``rate`` is how many come per lifetime, in the whole pool; ``met`` the chance that a request
    gets as far as each class, ``none`` that no GPU is in it; ``lost`` that it finds nothing.
    """

    rate: float
    classes: Ints
    after: Ints
    gpus: Floats
    met: Floats
    none: Floats
    lost: float


class Flow:
    """Arrivals by part (per GPU and lifetime), departures one per VM and lifetime.

    ``fits[part, class]`` is 1 where the part has room.
    """

    def __init__(
        self, space: StateSpace, classes: Ints, rates: Floats, sizes: Ints, gpus: float
    ) -> None:
        first = [int(state) for state in np.unique(classes, return_index=True)[1]]
        count, parts = len(first), len(space.parts)
        self._gpus, self._rates, self._sizes = gpus, rates * gpus, sizes
        takes = [
            [sorted({int(classes[step.after]) for step in of}) for of in space.takes[state]]
            for state in first
        ]
        most = max((len(found) for of in takes for found in of), default=0) or 1
        self._takes = np.full((parts, count, most), count)
        self._leaves = np.zeros((count, count))
        for number, state in enumerate(first):
            for part, found in enumerate(takes[number]):
                self._takes[part, number, : len(found)] = found
            for step in space.leaves[state]:
                self._leaves[number, classes[step.after]] += 1
                self._leaves[number, number] -= 1
        self.fits: Ints = (self._takes[:, :, 0] < count).astype(np.int64)

    def empty(self) -> Floats:
        """All GPUs empty."""
        return np.asarray(np.eye(len(self._leaves))[0])

    def settle(self, shares: Floats, values: Floats, steps: int) -> Floats:
        """The shares some steps later, when requests are placed by ``values``."""
        orders = list(self._orders(values))
        one = np.eye(len(shares))
        for _ in range(steps):
            rates = self._leaves.copy()
            for each in self._reached(orders, shares):
                crowd = np.maximum(each.gpus, _FEW)
                taken = np.where(each.gpus > _FEW, (1 - each.none) / crowd, 1.0)
                flow = each.rate * each.met * taken
                rates[each.classes, each.after] += flow
                rates[each.classes, each.classes] -= flow
            shares = np.maximum(np.linalg.solve((one - _TIME * rates).T, shares), 0)
            shares /= shares.sum()
        return shares

    def losses(self, shares: Floats, values: Floats) -> Floats:
        """What a GPU more in each class, and an empty one less, adds to all later losses.

        In units, summed over the time in which the pool returns to balance.
        """
        count = len(shares)
        change, now = self._leaves.copy(), np.zeros(count)
        for each, size in zip(
            self._reached(list(self._orders(values)), shares), self._sizes, strict=True
        ):
            now[each.classes] += each.rate * size * each.lost
            change[each.classes] += each.rate * self._shift(each, count)
        system = np.zeros((count + 1, count + 1))
        system[:count, :count] = change
        system[:count, count] = -1.0
        system[count, 0] = 1.0
        system += _FEW * np.eye(count + 1)
        # A GPU more where a part has room is a loss less: the pool refuses it less often.
        found = np.linalg.solve(system, np.append(now, 0.0))[:count]
        return np.asarray(found - found[0])

    def _shift(self, each: _Reached, count: int) -> Floats:
        """How one GPU more in a class changes where the part goes, by class it leaves and meets."""
        number = np.arange(len(each.classes))
        moves = np.zeros((len(number), count))
        moves[number, each.after] += 1
        moves[number, each.classes] -= 1
        goes = (each.met * (1 - each.none))[:, None] * moves
        later = np.cumsum(goes[::-1], axis=0)[::-1]
        shift = (each.met * each.none)[:, None] * moves
        shift[:-1] -= later[1:]
        return shift

    def _orders(self, values: Floats) -> Iterator[tuple[Ints, Ints]]:
        known = np.append(values, np.inf)
        for takes, fits in zip(self._takes, self.fits, strict=True):
            classes = np.flatnonzero(fits)
            worth = known[takes[classes]]
            best = worth.argmin(axis=1)
            after = takes[classes, best]
            order = np.argsort(worth.min(axis=1) - values[classes], kind="stable")
            yield classes[order], after[order]

    def _reached(self, orders: list[tuple[Ints, Ints]], shares: Floats) -> Iterator[_Reached]:
        for rate, (classes, after) in zip(self._rates, orders, strict=True):
            gpus = self._gpus * shares[classes]
            none = np.exp(-gpus)
            gone = np.concatenate(([1.0], np.exp(-np.cumsum(gpus))))
            yield _Reached(float(rate), classes, after, gpus, gone[:-1], none, float(gone[-1]))
