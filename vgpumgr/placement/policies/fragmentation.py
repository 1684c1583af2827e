"""Least fragmentation: place where the least of what is idle becomes useless to the mix.

Idle GPU on a host is useless to a request that does not find room on it: too little of that GPU,
too few GPUs, vCPUs or memory left. Its *waste* is how much is useless to a request drawn from
the mix, on average, in thousandths of a GPU (the measure of "Beware of Fragmentation", USENIX ATC
2023, kept in fractions and with memory). A placement scores by how much less waste it leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BEST_FIT = 0.05
"""What leaving a whole host idle costs, as a share of a GPU: little, but it settles near ties."""


CUT_LAST = 0.001
"""What it costs to cut up a GPU by how much of it is free: it settles ties, nothing more."""


def leftover(cpus: Floats, gpus: Floats) -> Floats:
    """The best-fit term: vCPUs and GPUs that stay idle, each as a share of the largest host's."""
    cost: Floats = BEST_FIT * 1000.0 * (cpus + gpus)
    return cost


def cutting(free: Floats) -> Floats:
    """The cost of taking a part of GPUs with so many thousandths free."""
    cost: Floats = CUT_LAST * free
    return cost
