"""Which shares fit together on one GPU, and which of those sets pays best."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.placement.baselines.cluster import Floats, Ints


def single(sizes: Ints, room: int) -> Iterator[Ints]:
    """For each size, as many of it alone as fit: counts per size."""
    for index, size in enumerate(sizes):
        counts = np.zeros(len(sizes), dtype=np.int64)
        counts[index] = room // size
        yield counts


def paying(sizes: Ints, worth: Floats, room: int, price: float) -> Ints | None:
    """The counts per size worth most in all, if that is more than the price (a knapsack)."""
    if not len(sizes) or not (worth > 0).any():
        return None
    grain = int(np.gcd.reduce([*sizes.tolist(), room]))
    steps, room = sizes // grain, room // grain
    best = np.zeros(room + 1)
    last = np.full(room + 1, -1, dtype=np.int64)
    for filled in range(int(steps.min()), room + 1):
        fitting = np.flatnonzero(steps <= filled)
        values = best[filled - steps[fitting]] + worth[fitting]
        top = int(values.argmax())
        if values[top] > best[filled - 1]:
            best[filled], last[filled] = values[top], fitting[top]
        else:
            best[filled] = best[filled - 1]
    return _counts(steps, last) if best[room] > price else None


def _counts(steps: Ints, last: Ints) -> Ints:
    counts = np.zeros(len(steps), dtype=np.int64)
    left = len(last) - 1
    while left > 0:
        size = int(last[left])
        if size < 0:
            left -= 1
        else:
            counts[size] += 1
            left -= int(steps[size])
    return counts
