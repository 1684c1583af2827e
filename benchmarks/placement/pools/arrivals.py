"""Requests that come and go: Poisson arrivals, exponential lifetimes of mean 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``at`` and ``until`` in mean lifetimes; the figures are of what comes after ``warm``."""

    at: Floats
    until: Floats
    parts: Ints
    warm: float
    end: float


def arrivals(
    shares: Floats, sizes: Ints, units: int, load: float, seed: int, *, warm: float, lasting: float
) -> Arrivals:
    """What offers ``load`` of ``units`` on average, when all is accepted."""
    rng = np.random.default_rng(seed)
    rate = load * units / float(shares @ sizes)
    end = warm + lasting
    count = int(rate * end + 6 * np.sqrt(rate * end) + 10)
    at = np.cumsum(rng.exponential(1 / rate, count))
    parts = rng.choice(len(shares), count, p=shares)
    until = at + rng.exponential(1.0, count)
    inside = at < end
    return Arrivals(at[inside], until[inside], parts[inside].astype(np.int64), warm, end)
