"""Times of many decisions, by the clock and by CPU: on a busy machine only the latter is ours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

Figures = dict[str, float]


class Stopwatch:
    """Microseconds of every call, by the clock and of CPU."""

    def __init__(self) -> None:
        self.wall: list[int] = []
        self.cpu: list[int] = []

    def figures(self) -> dict[str, Figures]:
        """Median, 99th percentile, mean."""
        return {"wall_us": _spread(self.wall), "cpu_us": _spread(self.cpu)}

    def per_second(self) -> dict[str, float]:
        """Calls in a second of the clock, and of CPU."""
        return {
            "wall": round(1e9 * len(self.wall) / max(1, sum(self.wall)), 1),
            "cpu": round(1e9 * len(self.cpu) / max(1, sum(self.cpu)), 1),
        }

    def plus(self, other: Stopwatch) -> Stopwatch:
        """Call by call both together."""
        both = Stopwatch()
        both.wall = [a + b for a, b in zip(self.wall, other.wall, strict=True)]
        both.cpu = [a + b for a, b in zip(self.cpu, other.cpu, strict=True)]
        return both

    @contextmanager
    def running(self) -> Iterator[None]:
        """What is done inside is timed."""
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        yield
        self.cpu.append(time.thread_time_ns() - cpu)
        self.wall.append(time.perf_counter_ns() - wall)

    def ms(self) -> Figures:
        """The only call, in milliseconds."""
        return {"wall": round(self.wall[0] / 1e6, 2), "cpu": round(self.cpu[0] / 1e6, 2)}


def rss_mib() -> float:
    """What of this process is in memory now."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def _spread(ns: Sequence[int]) -> Figures:
    us = np.array(ns or [0]) / 1000
    return {
        "median": round(float(np.median(us)), 1),
        "p99": round(float(np.percentile(us, 99)), 1),
        "mean": round(float(us.mean()), 1),
    }
