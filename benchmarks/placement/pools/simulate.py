"""One run: a policy on one sequence of arrivals and departures."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.placement.pools.arrivals import Arrivals
from benchmarks.placement.pools.boards import Board
from benchmarks.placement.pools.checker import check
from vgpumgr.placement.tables.state_space import StateTransition

CHECKED_EVERY = 50


class Pool(Protocol):
    """What holds VMs; it knows only the past."""

    moved: list[int]

    def accept(self, vm: int, part: int) -> bool:
        """Place it, or refuse it. VMs moved on the way are added to ``moved``."""
        ...

    def leave(self, vm: int) -> None:
        """It goes."""
        ...

    def held(self) -> Iterable[Iterable[StateTransition]]:
        """What lies on each GPU; nothing where nothing is placed."""
        ...

    def active(self) -> int | None:
        """How many GPUs hold anything; None where that is not known."""
        ...


@dataclass(slots=True)
class Run:
    """Counts by part of what came after the warm-up, and what it took.

    ``moves`` in all, ``movers`` VMs that were moved at all; ``active`` GPUs on average over
    arrivals (an arrival sees the average over time); ``held_share`` of the pool's units.
    """

    offered: list[int]
    accepted: list[int]
    moves: int = 0
    movers: int = 0
    active: float | None = None
    held_share: float = 0.0
    decision_us: list[float] = field(default_factory=list)


def simulate(pool: Pool, came: Arrivals, board: Board, units: int) -> Run:
    """Every arrival and departure in order. Raises ``InvalidPlacement``, looking now and then."""
    sizes = board.sizes.tolist()
    run = Run([0] * len(sizes), [0] * len(sizes))
    movers: set[int] = set()
    active, shares, held = [], [], 0
    inside: set[int] = set()
    for event, vm, part in _events(came):
        if not event:
            if vm in inside:
                inside.discard(vm)
                held -= sizes[part]
                pool.leave(vm)
            continue
        if vm % CHECKED_EVERY == 0:
            check(board, pool.held())
        counts = came.at[vm] >= came.warm
        if counts:
            shares.append(held / units)
            active.append(pool.active())
        pool.moved.clear()
        start = time.perf_counter_ns()
        accepted = pool.accept(vm, part)
        spent = time.perf_counter_ns() - start
        if accepted:
            inside.add(vm)
            held += sizes[part]
        if counts:
            run.offered[part] += 1
            run.accepted[part] += accepted
            run.moves += len(pool.moved)
            movers.update(pool.moved)
            run.decision_us.append(spent / 1000)
    run.movers = len(movers)
    run.active = None if None in active else float(np.mean([n or 0 for n in active]))
    run.held_share = float(np.mean(shares))
    return run


def _events(came: Arrivals) -> Iterator[tuple[bool, int, int]]:
    """(whether it comes, VM, part), by time."""
    leaving: list[tuple[float, int]] = []
    parts = came.parts.tolist()
    for vm, (at, until) in enumerate(zip(came.at.tolist(), came.until.tolist(), strict=True)):
        while leaving and leaving[0][0] <= at:
            _, gone = heapq.heappop(leaving)
            yield False, gone, parts[gone]
        yield True, vm, parts[vm]
        heapq.heappush(leaving, (until, vm))
