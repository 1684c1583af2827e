"""Policies as pools: a ranking over a table, with or without moves; free migration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.placement.pools.boards import Kind, TableKind
from benchmarks.placement.pools.bound import Bound
from benchmarks.placement.pools.rankings import noted
from benchmarks.placement.pools.repair import Repair, carry_out, find_repair
from benchmarks.placement.pools.simulate import Pool
from benchmarks.placement.pools.table_pool import Ranking, TablePool
from vgpumgr.placement.tables.state_space import StateSpace, StateTransition


@dataclass(frozen=True, slots=True)
class Budget:
    """At most ``most`` moves for one request, and ``share`` moves per VM accepted.

    What is not used is kept, up to ``saved`` moves. ``price`` is for rankings by worth: what a
    move must bring, in thousandths of a GPU, when nothing is left; proportionally less the more
    there is. Without it every repair is made, with the fewest moves.
    """

    most: int
    share: float
    saved: float = 8.0
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A ranking by name, with a budget of moves or none; ``turns``: GPUs in turn, as they fit."""

    ranking: str
    budget: Budget | None = None
    turns: bool = False

    def pool(self, board: TableKind, mix: str, gpus: int) -> Pool:
        """The empty pool."""
        shares = tuple(board().shares(mix).tolist())
        ranking = noted(self.ranking, board, shares, gpus)
        kind = RoundRobin if self.turns else Ranked
        return kind(board().space, ranking, gpus, self.budget)


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Free migration by the bound that suits the board."""

    bound: Callable[..., Bound]

    def pool(self, board: Kind, mix: str, gpus: int) -> Pool:
        """The empty pool; it needs no mix."""
        return Free(self.bound(board(), gpus))


class Ranked:
    """Goes by a ranking; on a refusal it may move others, within its budget."""

    def __init__(
        self, space: StateSpace, ranking: Ranking, gpus: int, budget: Budget | None = None
    ) -> None:
        self.table = TablePool(space, ranking, gpus)
        self.moved: list[int] = []
        self._budget = budget
        self._left = 0.0
        free = space.free
        self._gain = [1000 * (free[0] - free[of[0].after]) / space.units for of in space.takes[0]]

    def accept(self, vm: int, part: int) -> bool:
        """See ``Pool``."""
        gpu = self._choose(part)
        if gpu is None:
            gpu = self._repair(part)
        if gpu is None:
            return False
        self.table.put(vm, part, gpu)
        if self._budget:
            self._left = min(self._budget.saved, self._left + self._budget.share)
        return True

    def leave(self, vm: int) -> None:
        """See ``Pool``."""
        self.table.remove(vm)

    def held(self) -> Iterable[Iterable[StateTransition]]:
        """See ``Pool``."""
        return [gpu.values() for gpu in self.table.held]

    def active(self) -> int | None:
        """See ``Pool``."""
        return int((self.table.states != 0).sum())

    def _choose(self, part: int) -> int | None:
        return self.table.best(part)

    def _repair(self, part: int) -> int | None:
        if self._budget is None or self._left < 1:
            return None
        most = min(self._budget.most, int(self._left))
        if self._budget.price is None:
            repair = find_repair(self.table, part, most)
        else:
            repair = self._paying(part, most, self._budget.price)
        if repair is None:
            return None
        carry_out(self.table, repair)
        self.moved += [move.vm for move in repair.moves]
        self._left -= len(repair.moves)
        return repair.gpu

    def _paying(self, part: int, most: int, price: float) -> Repair | None:
        assert self._budget is not None
        price *= 1 - self._left / self._budget.saved

        def cost(repair: Repair) -> tuple[float, ...]:
            return (repair.loss + price * len(repair.moves), repair.units)

        repair = find_repair(self.table, part, most, cost=cost)
        return repair if repair and cost(repair)[0] < self._gain[part] else None


class RoundRobin(Ranked):
    """The next GPU with room after the one before."""

    _next = 0

    def _choose(self, part: int) -> int | None:
        fits = np.isfinite(self.table.ranking.scores[part, self.table.states])
        found = np.flatnonzero(np.roll(fits, -self._next))
        if not len(found):
            return None
        gpu = int((found[0] + self._next) % len(fits))
        self._next = gpu + 1
        return gpu


class Free:
    """Every VM may move at any time: what nothing without foresight can beat on acceptance."""

    def __init__(self, bound: Bound) -> None:
        self.moved: list[int] = []
        self._bound = bound
        self._parts: dict[int, int] = {}

    def accept(self, vm: int, part: int) -> bool:
        """See ``Pool``."""
        self._parts[vm] = part
        return self._bound.accept(part)

    def leave(self, vm: int) -> None:
        """See ``Pool``."""
        self._bound.leave(self._parts[vm])

    def held(self) -> Iterable[Iterable[StateTransition]]:
        """Nothing is placed."""
        return []

    def active(self) -> int | None:
        """Not known: nothing is placed."""
        return None
