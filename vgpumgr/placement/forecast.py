"""How long room lasts, if what is held goes on to change day by day as it did.

Days of the past are drawn at random, in runs of a week so that weekends stay together, and strung
into possible futures (a moving-block bootstrap): nothing is assumed of how growth is distributed,
nor that it goes on in a line. The draw is always the same, so the answer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ENOUGH_DAYS = 14
"""Fewer days of history tell nothing: two of every weekday."""

HORIZON_DAYS = 365
_FUTURES, _RUN_DAYS, _SEED = 1_000, 7, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Room is gone by ``days_50`` as likely as not, and lasts ``days_90`` nine times in ten.

    None: longer than a year. ``per_day`` is the mean change of the past.
    """

    per_day: float
    days_50: int | None
    days_90: int | None


class Futures:
    """What could become of a quantity that changed by ``changes`` on the days of the past.

    The oldest day first, at least ENOUGH_DAYS of them; else ValueError.
    """

    def __init__(self, changes: Sequence[float]) -> None:
        if len(changes) < ENOUGH_DAYS:
            raise ValueError(f"{len(changes)} days are too few")
        past = np.array(changes, np.float64)
        self._per_day = float(past.mean())
        self._peaks = _peaks(past)

    def lasting(self, room: float) -> Lasting:
        """How long until it has grown by more than ``room``."""
        if room < 0:
            return Lasting(per_day=self._per_day, days_50=0, days_90=0)
        gone = (self._peaks > room + 1e-9).sum(axis=0) / _FUTURES
        unsafe = _first(gone > 0.1)
        return Lasting(
            per_day=self._per_day,
            days_50=_first(gone >= 0.5),
            days_90=None if unsafe is None else unsafe - 1,
        )


def _peaks(past: NDArray[np.float64]) -> NDArray[np.float64]:
    """[futures × days] the most that it has grown by until then."""
    runs = -(-HORIZON_DAYS // _RUN_DAYS)
    starts = np.random.default_rng(_SEED).integers(0, len(past), (_FUTURES, runs))
    days = (starts[:, :, None] + np.arange(_RUN_DAYS)) % len(past)
    drawn = past[days.reshape(_FUTURES, -1)[:, :HORIZON_DAYS]]
    peaks: NDArray[np.float64] = np.maximum.accumulate(np.cumsum(drawn, axis=1), axis=1)
    return peaks


def _first(gone: NDArray[np.bool_]) -> int | None:
    """Days until it is so."""
    return int(np.argmax(gone)) + 1 if gone.any() else None
