"""Which clearings to carry out together: the fewest moves, and among as many the lightest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.defrag.clearing import Clearing, Site

Weight = Callable[[Clearing], float]


def fewest(sites: Sequence[Site], gain: int) -> int | None:
    """The least number of residents that leave where ``gain`` is won; None: it cannot be."""
    least = np.full(gain + 1, np.inf)  # by what is won, or more
    least[0] = 0
    for site in sites:
        before = least
        for each in site:
            won, after = min(each.gain, gain), np.full(gain + 1, before[0])
            after[won:] = before[: gain + 1 - won]
            least = np.minimum(least, after + len(each.leaving))
    return int(least[gain]) if np.isfinite(least[gain]) else None


def lightest(sites: Sequence[Site], gain: int, moves: int, weight: Weight) -> list[Clearing] | None:
    """The lightest clearings that win ``gain`` with at most ``moves`` leaving; None: none do."""
    best = np.full((gain + 1, moves + 1), np.inf)  # by what is won, or more, and who may leave
    best[0] = 0.0
    steps = []
    for site in sites:
        before, chosen = best, np.zeros(best.shape, np.int16)
        for number, each in enumerate(site, 1):
            after = _with(before, each, weight(each))
            chosen[after < best] = number
            best = np.minimum(best, after)
        steps.append(chosen)
    if not np.isfinite(best[gain, moves]):
        return None
    return _traced(sites, steps, gain, moves)


def _with(best: NDArray[np.float64], each: Clearing, weight: float) -> NDArray[np.float64]:
    gain, moves = best.shape[0] - 1, best.shape[1] - 1
    won, left = min(each.gain, gain), len(each.leaving)
    after = np.full(best.shape, np.inf)
    if left <= moves:
        after[won:, left:] = best[: gain + 1 - won, : moves + 1 - left] + weight
        after[:won, left:] = best[0, : moves + 1 - left] + weight
    return after


def _traced(
    sites: Sequence[Site], steps: Sequence[NDArray[np.int16]], gain: int, moves: int
) -> list[Clearing]:
    found = []
    for site, chosen in zip(reversed(sites), reversed(steps), strict=True):
        number = int(chosen[gain, moves])
        if number:
            each = site[number - 1]
            found.append(each)
            gain, moves = max(0, gain - each.gain), moves - len(each.leaving)
    return found
