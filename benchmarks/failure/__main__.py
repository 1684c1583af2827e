"""Risk on a time split: ``python -m benchmarks.failure --data DIR`` (none: a synthetic stand-in).

Trained on what came before, told of what came after; the trace itself is not kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.failure.alarms import Evaluation, area, by_threshold, fitted, scores, threshold_for
from benchmarks.failure.gpu_lives import DAY_S, GpuLives, read_titan, synthetic
from benchmarks.failure.gpu_windows import windows

RULE = "error in the last 7 days"


def main() -> None:
    """Print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of gc_full.csv.gz")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = evaluated(*_split(asked.data))
    text = json.dumps(found, indent=1)
    if asked.json:
        asked.json.write_text(f"{text}\n")
    print(text)
    for name, told in found["alarms"].items():
        print(f"{name}: {told}", file=sys.stderr)


def _split(folder: Path | None) -> tuple[GpuLives, tuple[float, float, float]]:
    if folder is None:
        return synthetic(), (0.0, 3 * 365 * DAY_S, 5 * 365 * DAY_S)
    days = [datetime(2014, 6, 1), datetime(2017, 7, 1), datetime(2019, 7, 1)]
    first, middle, last = (day.replace(tzinfo=UTC).timestamp() for day in days)
    return read_titan(folder), (first, middle, last)


def evaluated(lives: GpuLives, split: tuple[float, float, float]) -> dict[str, Any]:
    """The hazard table of the first part, and every alarm on the second."""
    first, middle, last = split
    train = Evaluation().add(windows(lives, first, middle))
    test = Evaluation().add(windows(lives, middle, last))
    table = fitted(train)
    rule = train.baselines[RULE].told(train.windows, train.failures)
    limits = {
        "risk, as few false alarms as the rule": rule["false_alarms_per_1000_gpu_months"],
        "risk, 1 false alarm for 1,000 months": 1.0,
        "risk, 3 false alarms for 1,000 months": 3.0,
    }
    alarms = {name: each.told(test.windows, test.failures) for name, each in test.baselines.items()}
    for name, most in limits.items():
        threshold = threshold_for(train, table, most)
        alarm = by_threshold(test, table, threshold)
        alarms[name] = {
            "threshold": threshold,
            **alarm.told(test.windows, test.failures),
        }
    best, beaten = alarms["risk, as few false alarms as the rule"], alarms[RULE]
    return {
        "input": lives.digest,
        "windows": test.windows,
        "failures": test.failures,
        "base_rate": round(test.failures / test.windows, 7),
        "alarms": alarms,
        "risk_auc": area(test, table),
        "risk_expected_failures": round(float((scores(table) * test.seen).sum())),
        "risk_beats_the_rule": (best["precision"] or 0) > (beaten["precision"] or 0)
        and (best["recall"] or 0) >= (beaten["recall"] or 0),
        "table": asdict(table),
    }


if __name__ == "__main__":
    main()
