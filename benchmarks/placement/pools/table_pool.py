"""A pool of alike GPUs whose states a table knows: VMs by GPU, and the best GPU for the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.tables.state_space import StateSpace, StateTransition

Floats = NDArray[np.float64]

Score = Callable[[int, StateTransition], float]
"""Of a state, and a step that a part may take from there."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """How good each part is on a GPU in each state: ``scores[part, state]``, lower is better.

    inf without room. ``steps[part][state]`` is where on the GPU it goes.
    """

    scores: Floats
    steps: tuple[tuple[StateTransition | None, ...], ...]


Held = tuple[int, int]
"""A part that is on a GPU, and its slots as ``StateTransition`` has them."""


@dataclass(frozen=True, slots=True)
class Emptying:
    """What must leave a GPU for a part to fit, the largest first.

    ``loss`` is how much worse the GPU becomes by it all, the part included.
    """

    leaving: tuple[Held, ...]
    loss: float


def by_worth(space: StateSpace, worth: Floats) -> Ranking:
    """Rank by how much worse a GPU becomes: ``worth[state]`` is an expected loss, or a waste."""
    return ranked(space, lambda state, step: float(worth[step.after] - worth[state]))


def ranked(space: StateSpace, score: Score, *, places: bool = True) -> Ranking:
    """Rank by ``score(state, step)``; without ``places`` only the rules' favourite place counts."""
    scores = np.full((len(space.parts), len(space.free)), np.inf)
    steps: list[tuple[StateTransition | None, ...]] = []
    for part in range(len(space.parts)):
        chosen: list[StateTransition | None] = []
        for state, takes in enumerate(space.takes):
            ways = takes[part] if places else takes[part][:1]
            found = min(((score(state, step), n) for n, step in enumerate(ways)), default=None)
            chosen.append(ways[found[1]] if found else None)
            if found:
                scores[part, state] = found[0]
        steps.append(tuple(chosen))
    return Ranking(scores, tuple(steps))


class TablePool:
    """The GPUs, numbered, and the VMs on them, by any number of the caller's."""

    def __init__(self, space: StateSpace, ranking: Ranking, gpus: int) -> None:
        self.space = space
        self.ranking = ranking
        self.states = np.zeros(gpus, np.int64)
        self.held: list[dict[int, StateTransition]] = [{} for _ in range(gpus)]
        self.where: dict[int, int] = {}
        self._emptying: dict[tuple[int, int, int], tuple[Emptying, ...]] = {}

    def best(self, part: int, without: Collection[int] = ()) -> int | None:
        """The GPU to put the part on, the first of equally good ones; None where none takes it."""
        scores = self.ranking.scores[part, self.states]
        for gpu in without:
            scores[gpu] = np.inf
        gpu = int(scores.argmin())
        return gpu if scores[gpu] < np.inf else None

    def put(self, vm: int, part: int, gpu: int) -> None:
        """Place the VM; there must be room."""
        step = self.ranking.steps[part][self.states[gpu]]
        if step is None:
            raise ValueError(f"GPU {gpu} has no room for part {part}")
        self.states[gpu] = step.after
        self.held[gpu][vm] = step
        self.where[vm] = gpu

    def remove(self, vm: int) -> None:
        """The VM is gone."""
        gpu = self.where.pop(vm)
        held = self.held[gpu].pop(vm)
        self.states[gpu] = self.without(int(self.states[gpu]), held)

    def without(self, state: int, held: StateTransition) -> int:
        """The state once what came by the step has left."""
        return self._without(state, (held.part, held.slots))

    def emptying(self, state: int, part: int, count: int) -> tuple[Emptying, ...]:
        """Every choice of ``count`` parts without which a GPU in that state takes the part."""
        key = state, part, count
        if key not in self._emptying:
            self._emptying[key] = tuple(self._ways_out(state, part, count))
        return self._emptying[key]

    def _ways_out(self, state: int, part: int, count: int) -> Iterator[Emptying]:
        scores, size = self.ranking.scores, self.space.size
        there = sorted(
            ((s.part, s.slots) for s in self.space.leaves[state]), key=lambda h: -size(h[0])
        )
        for leaving in dict.fromkeys(combinations(there, count)):
            after, loss = state, 0.0
            for held in leaving:
                after = self._without(after, held)
                loss -= float(scores[held[0], after])
            loss += float(scores[part, after])
            if loss < np.inf:
                yield Emptying(leaving, loss)

    def _without(self, state: int, held: Held) -> int:
        leaves = self.space.leaves[state]
        return next(step.after for step in leaves if (step.part, step.slots) == held)
