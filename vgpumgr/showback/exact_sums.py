"""Sums of many whole numbers by group, without any rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

_LOW_BITS = 31
# The halves of this many, of at most 31 bits, have a sum below 2^53, which a double holds exactly.
_AT_ONCE = 1 << 22


def exact_sums(groups: Whole, numbers: Whole, count: int) -> list[int]:
    """The sum of each of ``count`` groups; ``numbers`` are from 0 to below 2^62."""
    found = [0] * count
    for first in range(0, len(groups), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        high = _added(groups[some], numbers[some] >> _LOW_BITS, count)
        low = _added(groups[some], numbers[some] & ((1 << _LOW_BITS) - 1), count)
        both = zip(found, high, low, strict=True)
        found = [before + (more << _LOW_BITS) + rest for before, more, rest in both]
    return found


def _added(groups: Whole, numbers: Whole, count: int) -> list[int]:
    sums = np.bincount(groups, weights=numbers.astype(np.float64), minlength=count)
    added: list[int] = sums.astype(np.int64).tolist()
    return added
