"""What the charts of a report show: allocation by demand, by window, by load, by history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.placement.svg import Line
from benchmarks.placement.tables import label

Row = Mapping[str, Any]

SHOWN_FROM = 80.0
"""Demand, and allocation, below which all policies are alike."""

AXES = {"windows": "requests per window", "departures": "offered load, of the fleet's GPUs"}
HISTORY = "share of the tasks known"


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart's content; values under ``bottom`` are cut off."""

    name: str
    title: str
    axes: tuple[str, str]
    lines: Mapping[str, Line]
    bottom: float


def by_demand(workload: str, rows: Sequence[Row]) -> Iterator[Picture]:
    """How allocation follows what arrives."""
    lines = {
        label(row): [
            (float(level), spread["mean"])
            for level, spread in row["alloc_pct"].items()
            if float(level) >= SHOWN_FROM
        ]
        for row in rows
    }
    axes = ("arrived demand, % of the fleet's GPUs", "allocated, %")
    yield Picture(workload, f"{workload}: allocation by arrived demand", axes, lines, SHOWN_FROM)


def by_setting(rows: Sequence[Row]) -> Iterator[Picture]:
    """How allocation at the end follows what was varied; nothing where nothing was."""
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        kind, _, value = mine[0]["variant"].partition(":")
        if value and len({row["variant"] for row in mine}) > 1:
            name, axis, by = kind, AXES[kind], _parameter
        elif len({row["history"] for row in mine} - {None}) > 1:
            name, axis, by = "history", HISTORY, _history
            mine = [row for row in mine if row["history"] is not None]
        else:
            continue
        yield _picture(f"{workload}-{name}", f"{workload}: by {axis}", axis, mine, by)


def _picture(
    name: str, title: str, axis: str, rows: Sequence[Row], by: Callable[[Row], float]
) -> Picture:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        spread = row["alloc_pct"].get("130") or row["alloc_pct"]["mean"]
        lines.setdefault(row["policy"], []).append((by(row), spread["mean"]))
    lowest = min(value for line in lines.values() for _, value in line)
    sorted_lines = {policy: sorted(line) for policy, line in lines.items()}
    return Picture(name, title, (axis, "allocated, %"), sorted_lines, float(int(lowest)))


def _parameter(row: Row) -> float:
    return float(row["variant"].partition(":")[2])


def _history(row: Row) -> float:
    return float(row["history"])
