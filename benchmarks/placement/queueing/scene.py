"""What comes when and runs how long: the same for every policy.

The fleet is every so-manieth host of the file, by model and size. At time 0 tasks stand on it,
drawn by their lifetimes with what is left of them; then tasks come at random (Poisson) at the rate
that offers so many times the fleet's GPUs. Lifetimes are the trace's own, cut at a day: what runs
longer (1.1 % of the tasks, nine tenths of the work) are services, not work that queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.sequences import capacity, demands, in_tie_order
from benchmarks.placement.traces import Host, Shape, Task, TraceError

DAY_S = 86_400.0
STANDING = 0.95
"""The most of the fleet's GPUs that tasks stand on at time 0; more would not fit."""

_TASKS, _BOUNDS = 11, 12
"""Streams of random numbers."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Request ``k`` asks for ``shapes[kinds[k]]`` at ``at[k]`` and runs ``lasts[k]`` seconds.

    ``bounds[k]`` is what its user says it runs at most. The first ``standing`` are there at 0.
    """

    seed: int
    load: float
    hosts: tuple[Host, ...]
    shapes: tuple[Shape, ...]
    kinds: NDArray[np.int64]
    at: NDArray[np.float64]
    lasts: NDArray[np.float64]
    bounds: NDArray[np.float64]
    standing: int


def make_scene(
    hosts: Sequence[Host],
    tasks: Sequence[Task],
    seed: int,
    load: float,
    *,
    one_in: int = 8,
    noise: float = 10.0,
    requests: int | None = None,
) -> Scene:
    """As many requests come as there are tasks, unless ``requests`` says how many.

    A bound is the lifetime times a factor between 1 and ``noise``, drawn evenly by its logarithm:
    users guess high, and nobody's guess is too low.
    """
    fleet = in_tie_order(part_of(hosts, one_in), seed)
    random = np.random.default_rng((seed, _TASKS))
    shapes = tuple(sorted({task.shape for task in tasks}))
    place = {shape: number for number, shape in enumerate(shapes)}
    kind_of = np.array([place[task.shape] for task in tasks], dtype=np.int64)
    lives = _lives(tasks)
    asked = demands(shapes)[kind_of]
    full = capacity(fleet)
    first = _standing(random, asked, lives, min(load, STANDING) * full)
    later = random.integers(len(tasks), size=requests or len(tasks))
    pause = float((asked * lives).mean()) / (load * full)
    at = np.concatenate((np.zeros(len(first)), np.cumsum(random.exponential(pause, len(later)))))
    lasts = np.concatenate((lives[first] * random.random(len(first)), lives[later]))
    guess = np.exp(np.random.default_rng((seed, _BOUNDS)).random(len(at)) * np.log(noise))
    return Scene(
        seed=seed,
        load=load,
        hosts=fleet,
        shapes=shapes,
        kinds=kind_of[np.concatenate((first, later))],
        at=at,
        lasts=lasts,
        bounds=lasts * guess,
        standing=len(first),
    )


def part_of(hosts: Sequence[Host], one_in: int) -> list[Host]:
    """Every so-manieth host, those alike side by side."""
    alike = sorted(hosts, key=lambda host: (host.model, host.gpus, host.cpu_milli, host.name))
    return alike[::one_in]


def _lives(tasks: Sequence[Task]) -> NDArray[np.float64]:
    known = [task.lifetime for task in tasks if task.lifetime is not None]
    if len(known) < len(tasks):
        raise TraceError("some tasks have no creation_time and deletion_time to tell how long")
    return np.minimum(np.array(known), DAY_S)


def _standing(
    random: np.random.Generator,
    asked: NDArray[np.int64],
    lives: NDArray[np.float64],
    goal: float,
) -> NDArray[np.int64]:
    """Tasks found at a random moment: the longer one lives, the likelier it is there."""
    drawn = random.choice(len(asked), size=len(asked), p=lives / lives.sum())
    return drawn[: int(np.searchsorted(np.cumsum(asked[drawn]), goal))]
