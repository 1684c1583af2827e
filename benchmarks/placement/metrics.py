"""The figures of one run, from the checker's replay of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.checker import Ledger, Moment, replay
from benchmarks.placement.policy import Place
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Shape

LEVELS = (80, 85, 90, 92, 94, 95, 96, 97, 98, 100, 105, 110, 120, 130)
"""Arrived demand, in % of the fleet's GPUs, at which the allocation is noted."""

FRAGMENTED_AT = (90, 100, 130)
GROUPS = ("cpu", "share", "1", "2", "4", "8")
EARLY = 95


@dataclass(frozen=True, slots=True)
class Figures:
    """Percentages are of all GPUs. ``first_refusal_pct``: the demand that had arrived before it.

    ``accepted_pct`` is of the GPUs asked for. With departures there are no levels: ``alloc_pct``
    has ``mean``, over time, and all counts are of what came after the fill.
    """

    alloc_pct: Mapping[str, float]
    fragmented_pct: Mapping[str, float]
    first_refusal_pct: float | None
    accepted_pct: float
    refusals: Mapping[str, int]
    refusals_before_95: int


def figures(
    arrivals: Arrivals, places: Mapping[int, Place | None], mix: Mapping[Shape, float]
) -> Figures:
    """Replay and measure; raises ``InvalidPlacement``."""
    if arrivals.times is not None:
        return _in_steady_state(arrivals, places, arrivals.times)
    full = arrivals.capacity / 100
    alloc: dict[str, float] = {}
    fragmented: dict[str, float] = {}
    levels = list(LEVELS)
    for moment in replay(arrivals, places):
        while levels and moment.arrived >= levels[0] * full:
            level = levels.pop(0)
            alloc[str(level)] = round(moment.held / full, 4)
            if level in FRAGMENTED_AT:
                fragmented[str(level)] = round(fragmentation(moment.ledgers, mix) / full, 4)
    before = np.concatenate(([0], np.cumsum(arrivals.demands))) / full
    refused = _refused(arrivals.events.tolist(), places)
    return Figures(
        alloc_pct=alloc,
        fragmented_pct=fragmented,
        first_refusal_pct=round(float(before[refused[0]]), 4) if refused else None,
        accepted_pct=_accepted(arrivals, arrivals.events.tolist(), refused),
        refusals=_by_group(arrivals, refused),
        refusals_before_95=sum(bool(before[request + 1] <= EARLY) for request in refused),
    )


def fragmentation(ledgers: Iterable[Ledger], mix: Mapping[Shape, float]) -> float:
    """Idle GPU thousandths that a task drawn from the mix cannot use, summed over hosts."""
    return sum(_fragment(ledger, mix) for ledger in ledgers)


def _fragment(ledger: Ledger, mix: Mapping[Shape, float]) -> float:
    idle = sum(ledger.gpus)
    return idle - sum(share * _usable(ledger, shape) for shape, share in mix.items()) if idle else 0


def _usable(ledger: Ledger, shape: Shape) -> int:
    allowed = not shape.models or ledger.host.model in shape.models
    if not shape.gpus or not allowed or ledger.cpu_milli < shape.cpu_milli:
        return 0
    roomy = [free for free in ledger.gpus if free >= shape.gpu_milli]
    return sum(roomy) if len(roomy) >= shape.gpus else 0


def _in_steady_state(
    arrivals: Arrivals, places: Mapping[int, Place | None], times: NDArray[np.float64]
) -> Figures:
    moments: Sequence[Moment] = list(replay(arrivals, places))
    held = np.array([moment.held for moment in moments], dtype=float)
    lasting = np.diff(times)
    measured = slice(arrivals.first, None)
    mean = np.average(held[:-1][measured], weights=lasting[measured])
    events = arrivals.events[measured].tolist()
    refused = _refused(events, places)
    return Figures(
        alloc_pct={"mean": round(float(100 * mean / arrivals.capacity), 4)},
        fragmented_pct={},
        first_refusal_pct=None,
        accepted_pct=_accepted(arrivals, events, refused),
        refusals=_by_group(arrivals, refused),
        refusals_before_95=0,
    )


def _refused(events: Sequence[int], places: Mapping[int, Place | None]) -> list[int]:
    return [event for event in events if event >= 0 and places.get(event) is None]


def _accepted(arrivals: Arrivals, events: Sequence[int], refused: Sequence[int]) -> float:
    demands = arrivals.demands
    asked = int(demands[[event for event in events if event >= 0]].sum())
    lost = int(demands[list(refused)].sum()) if refused else 0
    return round(100 * (1 - lost / asked), 4)


def _by_group(arrivals: Arrivals, requests: Sequence[int]) -> dict[str, int]:
    counts = Counter(arrivals.shapes[arrivals.kinds[request]].group for request in requests)
    rest = sorted(set(counts) - set(GROUPS))
    return {group: counts[group] for group in (*GROUPS, *rest)}
