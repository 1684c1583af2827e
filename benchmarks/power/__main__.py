"""GPUs per kW against nameplate: static stacking, no capping and the controller, over one trace.

``python -m benchmarks.power [--hours 24] [--seeds 42 43] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.power.demand import PowerPoints, Together, demand, power_points
from benchmarks.power.replay import RackReplay, replay

BUDGET_W = 12_800.0
NAMEPLATE = 32
PERIOD_S = 15
MOST_GPUS = 80
RESERVED_LOSS = 0.02


def main() -> None:
    """Print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44, 45, 46])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    points, seconds = power_points(), int(asked.hours * 3600)
    rows = [_row(points, seconds, asked.seeds, each) for each in Together]
    found = {
        "budget_w": BUDGET_W,
        "nameplate_gpus": NAMEPLATE,
        "period_s": PERIOD_S,
        "hours": asked.hours,
        "seeds": asked.seeds,
        "rows": rows,
    }
    text = json.dumps(found, indent=1)
    if asked.json:
        asked.json.write_text(f"{text}\n")
    print(text)
    for row in rows:
        print(_line(row), file=sys.stderr)


def _row(points: PowerPoints, seconds: int, seeds: list[int], together: Together) -> dict[str, Any]:
    """Each way's most GPUs at 0 s over the breaker's curve, and what each comes to with those of
    the controller.
    """
    static = _static(points, seconds, seeds, together)
    uncapped = _most(points, seconds, seeds, together, None)
    capped = _most(points, seconds, seeds, together, PERIOD_S)
    return {
        "together": str(together),
        "nameplate": _told(points, seconds, seeds, together, NAMEPLATE, None),
        "static": _told(points, seconds, seeds, together, static, None),
        "no_capping": _told(points, seconds, seeds, together, uncapped, None),
        "controller": _told(points, seconds, seeds, together, capped, PERIOD_S),
        "as_many_without": _told(points, seconds, seeds, together, capped, None),
    }


def _static(points: PowerPoints, seconds: int, seeds: list[int], together: Together) -> int:
    """The most GPUs whose sum stays within the budget for 99.9 % of the time: a plan alone."""

    def holds(gpus: int) -> bool:
        sums = [demand(points, gpus, seconds, together, seed).sum(axis=1) for seed in seeds]
        return bool(np.quantile(np.concatenate(sums), 0.999) <= BUDGET_W)

    return next((gpus for gpus in range(MOST_GPUS, 1, -1) if holds(gpus)), 1)


def _most(
    points: PowerPoints, seconds: int, seeds: list[int], together: Together, period_s: int | None
) -> int:
    """The most GPUs without a second over the breaker's curve and, where it caps, with at most 2 %
    of its clocks lost by the reserved class.
    """

    def holds(gpus: int) -> bool:
        found = list(_replays(points, seconds, seeds, together, gpus, period_s))
        tripped = any(each.breaker_s for each in found)
        lost = max(each.clock_loss["reserved"] for each in found)
        return not tripped and (period_s is None or lost <= RESERVED_LOSS)

    low, high = NAMEPLATE // 2, MOST_GPUS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _replays(
    points: PowerPoints,
    seconds: int,
    seeds: list[int],
    together: Together,
    gpus: int,
    period_s: int | None,
) -> Iterable[RackReplay]:
    for seed in seeds:
        wanted = demand(points, gpus, seconds, together, seed)
        yield replay(points, wanted, BUDGET_W, period_s=period_s)


def _told(
    points: PowerPoints,
    seconds: int,
    seeds: list[int],
    together: Together,
    gpus: int,
    period_s: int | None,
) -> dict[str, Any]:
    """The worst seed of each figure, and the work of all."""
    found = list(_replays(points, seconds, seeds, together, gpus, period_s))
    plain = [asdict(each) for each in found]
    return {
        "gpus": gpus,
        "against_nameplate": round(gpus / NAMEPLATE - 1, 4),
        "breaker_s": max(each["breaker_s"] for each in plain),
        "over_budget_s": max(each["over_s"] for each in plain),
        "peak_of_budget": max(each["peak"] for each in plain),
        "busy_gpu_hours_per_kw": round(
            sum(each["busy_gpu_hours"] for each in plain) / (BUDGET_W / 1000) / len(plain), 2
        ),
        "clock_loss": {
            kind: max(each["clock_loss"][kind] for each in plain) for kind in plain[0]["clock_loss"]
        },
        "acts": sum(each["caps"] for each in plain),
    }


def _line(row: dict[str, Any]) -> str:
    parts = [
        f"{name} {row[name]['gpus']} ({row[name]['against_nameplate']:+.0%},"
        f" {row[name]['breaker_s']} s over the curve)"
        for name in ("nameplate", "static", "no_capping", "controller", "as_many_without")
    ]
    lost = row["controller"]["clock_loss"]
    return f"{row['together']}: {'; '.join(parts)}; clocks lost {lost}"


if __name__ == "__main__":
    main()
