"""What users do on the day: the same for every arm, drawn from the seed.

Three quarters log on around 8:30 (standard deviation 12 min), the others between 7:00 and 11:00.
60 % go to lunch around 12:00 for about 45 min; half of these log off, the others leave the session.
They go home around 17:00.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.vdi.scene import Times, at
from vgpumgr.model.pool import PoolSpec

USERS = 0.95
"""Of the desktops that a pool may have."""
MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Day:
    """One user's day; ``lunch`` is when, until when, and whether the user logs off for it."""

    user: str
    pool: str
    comes: float
    goes: float
    lunch: tuple[float, float, bool] | None


def days(pools: Sequence[PoolSpec], times: Times, seed: int) -> list[Day]:
    """Every user's day."""
    random = np.random.default_rng((seed, 1))
    return [
        _day(f"{pool.name}-u{number}", pool.name, times, random)
        for pool in pools
        for number in range(int(pool.size.max * USERS))
    ]


def _day(user: str, pool: str, times: Times, random: np.random.Generator) -> Day:
    early = random.random() < 0.75
    near, any_time = random.normal(times.storm, 12 * MINUTE), random.uniform(at(7), at(11))
    comes = float(max(near if early else any_time, at(6)))
    out = random.normal(times.lunch, 20 * MINUTE)
    back = out + max(15 * MINUTE, random.normal(45 * MINUTE, 10 * MINUTE))
    hungry, off = random.random() < 0.6, random.random() < 0.5
    home = random.normal(at(17), 45 * MINUTE)
    lunch = (float(out), float(back), bool(off)) if hungry and out > comes + MINUTE else None
    goes = float(min(max(home, back + MINUTE, comes + MINUTE), times.end - MINUTE))
    return Day(user, pool, comes, goes, lunch)
