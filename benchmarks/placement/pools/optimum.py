"""The most that a multiset of requests lets a pool hold, each request taken or left: exact.

An integer program over what full GPUs hold: how many GPUs of each such content, and how many
requests of each part lie in them. Needs highspy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.placement.pools.fluid import Floats, Ints, program


def most_held(sets: Floats | Ints, bins: int, sizes: Ints, offered: Ints) -> int:
    """The most of ``sizes`` in all, of ``offered`` requests per part, in so many GPUs.

    Raises RuntimeError where the solver does not end with the optimum.
    """
    highspy: Any = import_module("highspy")
    highs = program(sets, bins, sizes, offered.astype(float))
    columns = len(sets) + len(sizes)
    for column in range(columns):
        highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError("the integer program of the optimum was not solved")
    return round(-float(highs.getInfo().objective_function_value))


def drawn(shares: Floats, sizes: Ints, goal: float, seed: int) -> Ints:
    """Parts of requests, one after the other, until they ask for ``goal`` in all."""
    rng = np.random.default_rng(seed)
    count = int(2 * goal / float(shares @ sizes)) + 10
    parts = rng.choice(len(shares), count, p=shares)
    reached = np.cumsum(sizes[parts])
    return np.asarray(parts[: int(np.searchsorted(reached, goal)) + 1])
