"""GPUs at the beginning of each window of 48 hours: what was known by then, and whether it failed.

An error counts once for each GPU and window: storms of events are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.failure.gpu_lives import DAY_S, GpuLives, Times

WINDOW_S = 2 * DAY_S
NEVER = np.inf


@dataclass(frozen=True)
class Window:
    """The GPUs at work at its beginning: days since their last error and since the last on their
    blade (infinite: none), errors so far, age in days, and which fail within it.
    """

    since: Times
    blade_since: Times
    errors: npt.NDArray[np.int64]
    age: Times
    fails: npt.NDArray[np.bool_]


def windows(lives: GpuLives, begins: float, ends: float) -> Iterator[tuple[float, Window]]:
    """Each window from the trace's beginning, those that begin between the times (Unix seconds)."""
    gpus, blades = int(lives.gpu.max()) + 1, int(lives.blade.max()) + 1
    first = np.full(gpus, np.inf)
    np.minimum.at(first, lives.gpu, lives.begins)
    last, on_blade = np.full(gpus, -np.inf), np.full(blades, -np.inf)
    errors = np.zeros(gpus, dtype=np.int64)
    order = np.argsort(lives.ends, kind="stable")
    order = order[lives.failed[order]]
    done = 0
    start = float(lives.begins.min())
    while start < ends:
        while done < len(order) and lives.ends[order[done]] <= start:
            row = order[done]
            gpu, at = lives.gpu[row], lives.ends[row]
            last[gpu], on_blade[lives.blade[row]] = at, at
            errors[gpu] += 1
            done += 1
        if start >= begins:
            here = (lives.begins <= start) & (lives.ends > start)
            gpu = lives.gpu[here]
            yield (
                start,
                Window(
                    since=(start - last[gpu]) / DAY_S,
                    blade_since=(start - on_blade[lives.blade[here]]) / DAY_S,
                    errors=errors[gpu],
                    age=(start - first[gpu]) / DAY_S,
                    fails=lives.failed[here] & (lives.ends[here] <= start + WINDOW_S),
                ),
            )
        start += WINDOW_S
