"""Alarms counted: how often each is right, what it finds, and how often it is false."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.failure.gpu_windows import WINDOW_S, Window
from vgpumgr.health.failure_risk import AGE_DAYS, MOST_ERRORS, SINCE_DAYS, HazardTable

_MONTH_S = 365.25 / 12 * 86_400
_SPANS = len(SINCE_DAYS) + 1
CELLS: int = MOST_ERRORS * _SPANS + len(AGE_DAYS) + 1
Mask = npt.NDArray[np.bool_]

BASELINES: dict[str, Callable[[Window], Mask]] = {
    "error ever before": lambda each: each.errors > 0,
    "error in the last 30 days": lambda each: each.since <= 30,
    "error in the last 7 days": lambda each: each.since <= 7,
    "error in the last 2 days": lambda each: each.since <= 2,
    "error on the blade in the last 30 days": lambda each: each.blade_since <= 30,
    "second error within 30 days": lambda each: (each.since <= 30) & (each.errors >= 2),
}


@dataclass
class AlarmCount:
    """Windows of GPUs, alarms among them, and failures that they foretold."""

    alarms: int = 0
    right: int = 0

    def told(self, windows: int, failures: int) -> dict[str, Any]:
        """Shares, and false alarms for 1,000 months of a GPU."""
        months = windows * WINDOW_S / _MONTH_S
        return {
            "alarms": self.alarms,
            "precision": round(self.right / self.alarms, 5) if self.alarms else None,
            "recall": round(self.right / failures, 5) if failures else None,
            "false_alarms_per_1000_gpu_months": round(
                (self.alarms - self.right) / months * 1000, 3
            ),
        }


@dataclass
class Evaluation:
    """Counts over a split, baselines and the hazard table by its cells."""

    windows: int = 0
    failures: int = 0
    baselines: dict[str, AlarmCount] = field(
        default_factory=lambda: {name: AlarmCount() for name in BASELINES}
    )
    seen: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(CELLS, dtype=np.int64))
    failed: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(CELLS, dtype=np.int64))

    def add(self, found: Iterable[tuple[float, Window]]) -> Evaluation:
        """Count windows."""
        for _, each in found:
            self.windows += len(each.fails)
            self.failures += int(each.fails.sum())
            for name, alarm in BASELINES.items():
                raised = alarm(each)
                self.baselines[name].alarms += int(raised.sum())
                self.baselines[name].right += int((raised & each.fails).sum())
            cells = cell_of(each)
            self.seen += np.bincount(cells, minlength=CELLS)
            self.failed += np.bincount(cells[each.fails], minlength=CELLS)
        return self


def cell_of(window: Window) -> npt.NDArray[np.int64]:
    """The table's cell of each GPU: errors × span, then ages."""
    row = np.minimum(window.errors, MOST_ERRORS) - 1
    span = np.searchsorted(SINCE_DAYS, window.since, side="right")
    age = np.searchsorted(AGE_DAYS, window.age, side="right")
    return np.where(window.errors > 0, row * _SPANS + span, MOST_ERRORS * _SPANS + age)


def fitted(train: Evaluation, weight: float = 200.0) -> HazardTable:
    """The rates, each drawn towards that of its span where it has few windows."""
    seen, failed = train.seen.astype(float), train.failed.astype(float)
    after_seen = seen[: MOST_ERRORS * _SPANS].reshape(MOST_ERRORS, _SPANS)
    after_failed = failed[: MOST_ERRORS * _SPANS].reshape(MOST_ERRORS, _SPANS)
    of_span = (after_failed.sum(axis=0) + 0.5) / (after_seen.sum(axis=0) + 1000.0)
    after = (after_failed + weight * of_span) / (after_seen + weight)
    without_seen, without_failed = seen[MOST_ERRORS * _SPANS :], failed[MOST_ERRORS * _SPANS :]
    base = without_failed.sum() / max(1.0, without_seen.sum())
    without = (without_failed + 10_000 * base) / (without_seen + 10_000)
    return HazardTable(
        after=tuple(tuple(round(float(each), 7) for each in row) for row in after),
        without=tuple(round(float(each), 7) for each in without),
    )


def scores(table: HazardTable) -> npt.NDArray[np.float64]:
    """The risk of each cell."""
    return np.array([*(each for row in table.after for each in row), *table.without])


def by_threshold(found: Evaluation, table: HazardTable, threshold: float) -> AlarmCount:
    """The alarm of GPUs whose risk is at least so high."""
    raised = scores(table) >= threshold
    return AlarmCount(alarms=int(found.seen[raised].sum()), right=int(found.failed[raised].sum()))


def threshold_for(train: Evaluation, table: HazardTable, false_per_1000: float) -> float:
    """The lowest risk at which there are no more false alarms than that, on what it was made of."""
    for threshold in sorted(set(scores(table).tolist())):
        told = by_threshold(train, table, threshold).told(train.windows, train.failures)
        if told["false_alarms_per_1000_gpu_months"] <= false_per_1000:
            return float(threshold)
    return 1.0


def area(found: Evaluation, table: HazardTable) -> float:
    """How often a GPU that fails has a higher risk than one that does not (AUC)."""
    order = np.argsort(scores(table))
    bad = found.failed[order].astype(float)
    good = (found.seen - found.failed)[order].astype(float)
    values = scores(table)[order]
    wins = 0.0
    below = 0.0
    for value in np.unique(values):
        same = values == value
        wins += bad[same].sum() * (below + good[same].sum() / 2)
        below += good[same].sum()
    return round(float(wins / max(1.0, bad.sum() * good.sum())), 4)
