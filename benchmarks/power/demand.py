"""A seeded synthetic trace of what GPUs would draw, from the points of a measured distribution."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

DATA = Path(__file__).parent / "data" / "acme_a100_power.json"
GPUS_PER_HOST = 8
# How long work stays as it is, in seconds: between the steps of a training run and a session.
MEAN_PHASE_S = 600.0
STEP_S = 5

Watts = npt.NDArray[np.float64]


class Together(StrEnum):
    """Which GPUs work and rest together."""

    INDEPENDENT = "independent"
    HALF = "half"
    HOSTS = "hosts"


@dataclass(frozen=True)
class PowerPoints:
    """The distribution as an inverse: watts at shares of the time."""

    shares: tuple[float, ...]
    watts: tuple[float, ...]
    board_w: float
    idle_w: float
    least_w: float
    breaker_s: float
    breaker_at: float

    def at(self, shares: Watts) -> Watts:
        """Watts by linear interpolation."""
        return np.interp(shares, self.shares, self.watts)


def power_points() -> PowerPoints:
    """The points in this folder."""
    data = json.loads(DATA.read_text())
    known = sorted((float(share), float(watts)) for share, watts in data["points"].items())
    pairs = [(0.0, float(data["assumed"]["idle_watts"])), *known]
    return PowerPoints(
        shares=tuple(share for share, _ in pairs),
        watts=tuple(watts for _, watts in pairs),
        board_w=float(data["board_watts"]),
        idle_w=float(data["assumed"]["idle_watts"]),
        least_w=float(data["assumed"]["least_limit_watts"]),
        breaker_s=float(data["breaker"]["overload_seconds"]),
        breaker_at=float(data["breaker"]["at"]),
    )


def demand(points: PowerPoints, gpus: int, seconds: int, together: Together, seed: int) -> Watts:
    """Watts by step of ``STEP_S`` seconds and GPU, if nothing held them."""
    rng = np.random.default_rng(seed)
    sources = {
        Together.INDEPENDENT: gpus,
        Together.HALF: gpus - gpus // 2 + 1,
        Together.HOSTS: -(-gpus // GPUS_PER_HOST),
    }[together]
    drawn = np.stack([_phases(rng, seconds) for _ in range(sources)], axis=1)
    which = {
        Together.INDEPENDENT: np.arange(gpus),
        Together.HALF: np.array([0 if n % 2 else n // 2 + 1 for n in range(gpus)]),
        Together.HOSTS: np.arange(gpus) // GPUS_PER_HOST,
    }[together]
    return points.at(drawn)[:, which]


def _phases(rng: np.random.Generator, seconds: int) -> Watts:
    """One share for each second: constant for as long as a phase lasts."""
    most = int(seconds / MEAN_PHASE_S * 2) + 50
    ends = np.cumsum(rng.exponential(MEAN_PHASE_S, most))
    while ends[-1] < seconds:
        ends = np.concatenate([ends, ends[-1] + np.cumsum(rng.exponential(MEAN_PHASE_S, most))])
    shares = rng.random(len(ends))
    return shares[np.searchsorted(ends, np.arange(0, seconds, STEP_S), side="right")]
