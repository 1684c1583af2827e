"""In which order tasks arrive, and go again: the same for every policy.

The plain sequence: all tasks of the file in random order, then clones drawn uniformly, until what
has arrived asks for 130 % of the fleet's GPUs (less where the file alone asks for more).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.traces import MILLI, Host, Shape, Task, TraceError

FULL = 1.3
"""Demand at which a sequence ends, in shares of the fleet's GPUs."""

_HOSTS, _HISTORY, _TIMES = 1, 2, 3
"""Streams of random numbers beside that of the tasks, so that none disturbs another."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``kinds[k]`` is the shape (an index) of request ``k``.

    ``events`` in order: ``k`` is the arrival of request ``k``, ``~k`` its departure. ``times`` are
    the seconds of the events, None where only the order counts. ``first`` events fill the fleet
    before anything is measured. ``window`` requests in a row are one order, where it is not 0.
    ``hosts`` are in the order that breaks ties.
    """

    seed: int
    hosts: tuple[Host, ...]
    shapes: tuple[Shape, ...]
    kinds: NDArray[np.int64]
    events: NDArray[np.int64]
    times: NDArray[np.float64] | None = None
    first: int = 0
    window: int = 0

    @property
    def capacity(self) -> int:
        """Thousandths of GPUs that the fleet has."""
        return capacity(self.hosts)

    @property
    def demands(self) -> NDArray[np.int64]:
        """Thousandths of GPUs that each request asks for."""
        return demands(self.shapes)[self.kinds]


def inflation(hosts: Sequence[Host], tasks: Sequence[Task], seed: int) -> Arrivals:
    """Tasks in random order, then clones, until the demand exceeds 130 %."""
    random = np.random.default_rng(seed)
    shapes, kind_of = _kinds(tasks)
    order = random.permutation(len(tasks))
    goal = FULL * capacity(hosts)
    arrived = int(demands(shapes)[kind_of].sum())
    while arrived <= goal:
        clones = random.integers(len(tasks), size=1000)
        arrived += int(demands(shapes)[kind_of[clones]].sum())
        order = np.concatenate((order, clones))
    kinds = kind_of[order]
    reached = np.cumsum(demands(shapes)[kinds])
    kinds = kinds[: int(np.searchsorted(reached, goal, side="right")) + 1]
    return Arrivals(seed, in_tie_order(hosts, seed), shapes, kinds, np.arange(len(kinds)))


def windowed(arrivals: Arrivals, size: int) -> Arrivals:
    """The same, with every ``size`` requests in a row sorted, the largest first (bulk orders)."""
    shapes = arrivals.shapes
    ranks = sorted(range(len(shapes)), key=lambda n: (shapes[n].demand, shapes[n]), reverse=True)
    place = np.empty(len(shapes), dtype=np.int64)
    place[ranks] = np.arange(len(shapes))
    windows = np.arange(len(arrivals.kinds)) // size
    order = np.lexsort((place[arrivals.kinds], windows))
    return replace(arrivals, kinds=arrivals.kinds[order], window=size)


def turnover(
    hosts: Sequence[Host], tasks: Sequence[Task], seed: int, load: float = 1.0
) -> Arrivals:
    """Arrivals and departures with the trace's lifetimes, in the steady state from the start.

    At time 0 stand tasks drawn by lifetime with what is left of it, ``load`` times the GPUs in
    all; then Poisson arrivals at the rate that keeps it there, twice as many as the file has tasks.
    """
    lives = _lives(tasks)
    random = np.random.default_rng((seed, _TIMES))
    shapes, kind_of = _kinds(tasks)
    asked = demands(shapes)[kind_of]
    goal = load * capacity(hosts)
    standing = _standing(random, asked, lives, goal)
    later = random.integers(len(tasks), size=2 * len(tasks))
    begins = np.cumsum(random.exponential(float((asked * lives).mean()) / goal, size=len(later)))
    left = lives[standing] * random.random(len(standing))
    begins = np.concatenate((np.zeros(len(standing)), begins))
    ends = begins + np.concatenate((left, lives[later]))
    kinds = kind_of[np.concatenate((standing, later))]
    events, times = _merged(begins, ends)
    return Arrivals(
        seed, in_tie_order(hosts, seed), shapes, kinds, events, times, first=len(standing)
    )


def history(tasks: Sequence[Task], share: float, seed: int) -> tuple[Task, ...]:
    """What a plan may know: a ``share`` of the tasks, drawn apart from the sequence."""
    random = np.random.default_rng((seed, _HISTORY))
    chosen = random.permutation(len(tasks))[: round(share * len(tasks))]
    return tuple(tasks[int(index)] for index in chosen)


def in_tie_order(hosts: Sequence[Host], seed: int) -> tuple[Host, ...]:
    """The hosts in the order that breaks ties under this seed."""
    random = np.random.default_rng((seed, _HOSTS))
    return tuple(hosts[int(index)] for index in random.permutation(len(hosts)))


def capacity(hosts: Sequence[Host]) -> int:
    """Thousandths of GPUs in all."""
    return sum(host.gpus for host in hosts) * MILLI


def demands(shapes: Sequence[Shape]) -> NDArray[np.int64]:
    """Thousandths of GPUs that each shape asks for."""
    return np.array([shape.demand for shape in shapes], dtype=np.int64)


def _kinds(tasks: Sequence[Task]) -> tuple[tuple[Shape, ...], NDArray[np.int64]]:
    """The distinct shapes, and which of them each task has."""
    shapes = tuple(sorted({task.shape for task in tasks}))
    place = {shape: index for index, shape in enumerate(shapes)}
    return shapes, np.array([place[task.shape] for task in tasks], dtype=np.int64)


def _lives(tasks: Sequence[Task]) -> NDArray[np.float64]:
    known = [task.lifetime for task in tasks if task.lifetime is not None]
    if len(known) < len(tasks):
        raise TraceError(
            f"{len(tasks) - len(known)} of {len(tasks)} tasks have no lifetime; departures need "
            "creation_time and deletion_time"
        )
    return np.array(known)


def _standing(
    random: np.random.Generator,
    asked: NDArray[np.int64],
    lives: NDArray[np.float64],
    goal: float,
) -> NDArray[np.int64]:
    """Tasks found at a random moment: the longer one lives, the likelier it is there."""
    weights = lives / lives.sum()
    drawn = np.zeros(0, dtype=np.int64)
    while asked[drawn].sum() <= goal:
        drawn = np.concatenate((drawn, random.choice(len(asked), size=1000, p=weights)))
    return drawn[: int(np.searchsorted(np.cumsum(asked[drawn]), goal)) + 1]


def _merged(
    begins: NDArray[np.float64], ends: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Arrivals and the departures before the last arrival, by time."""
    requests = np.arange(len(begins))
    events = np.concatenate((requests, ~requests))
    times = np.concatenate((begins, ends))
    order = np.argsort(times, kind="stable")
    order = order[times[order] <= begins[-1]]
    return events[order], times[order]
