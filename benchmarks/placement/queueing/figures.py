"""Waiting times of runs: per class of request, and over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.metrics import GROUPS
from benchmarks.placement.queueing.replay import Run
from benchmarks.placement.queueing.scene import Scene
from benchmarks.placement.sequences import capacity, demands

Result = Mapping[str, Any]
AGAINST = ("fifo", "easy")


def figures(scene: Scene, run: Run) -> dict[str, Any]:
    """Of all requests that came after time 0. Seconds.

    ``used_pct`` is how much of the fleet's GPUs was held until the last request came, ``all_done``
    when the last one ended: the work is the same for everybody.
    """
    waited = (run.starts - scene.at)[scene.standing :]
    groups = np.array([shape.group for shape in scene.shapes])[scene.kinds[scene.standing :]]
    asked = demands(scene.shapes)[scene.kinds]
    until = float(scene.at[-1])
    held = np.minimum(run.starts + scene.lasts, until) - np.minimum(run.starts, until)
    return {
        "waited_s": _spread(waited),
        "by_class": {g: _spread(waited[groups == g]) for g in GROUPS if (groups == g).any()},
        "used_pct": round(float(100 * (held * asked).sum() / until / capacity(scene.hosts)), 3),
        "all_done_s": round(float((run.starts + scene.lasts).max())),
        "requests": len(waited),
        "cpu_s": run.cpu_s,
        "turns": run.turns,
    }


def summary(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Per load and policy, over the seeds: means, and how they compare seed by seed."""
    grouped: dict[float, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for each in results:
        grouped[each["load"]][each["policy"]][each["seed"]] = each
    return {
        str(load): {name: _policy(found, policies) for name, found in policies.items()}
        for load, policies in sorted(grouped.items())
    }


def _policy(found: Mapping[int, Result], others: Mapping[str, Mapping[int, Result]]) -> Any:
    return {
        "mean_s": _mean(each["waited_s"]["mean"] for each in found.values()),
        "p50_s": _mean(each["waited_s"]["p50"] for each in found.values()),
        "p99_s": _mean(each["waited_s"]["p99"] for each in found.values()),
        "used_pct": _mean(each["used_pct"] for each in found.values()),
        "class_mean_s": _by_class(found, "mean"),
        "class_p50_s": _by_class(found, "p50"),
        "class_p99_s": _by_class(found, "p99"),
        "against": {name: _paired(found, others[name]) for name in AGAINST if name in others},
    }


def _paired(found: Mapping[int, Result], other: Mapping[int, Result]) -> dict[str, Any]:
    both = sorted(set(found) & set(other))
    mine = [found[seed]["waited_s"]["mean"] for seed in both]
    theirs = [other[seed]["waited_s"]["mean"] for seed in both]
    worse = [
        f"{seed}: {group}"
        for seed in both
        for group, spread in found[seed]["by_class"].items()
        if spread["p99"] > other[seed]["by_class"][group]["p99"]
    ]
    return {
        "mean_pct": round(100 * (sum(mine) / sum(theirs) - 1), 2) if sum(theirs) else None,
        "seeds_better": sum(a < b for a, b in zip(mine, theirs, strict=True)),
        "seeds": len(both),
        "class_p99_above": worse,
    }


def _by_class(found: Mapping[int, Result], figure: str) -> dict[str, float]:
    return {
        group: _mean(each["by_class"][group][figure] for each in having)
        for group in GROUPS
        if (having := [each for each in found.values() if group in each["by_class"]])
    }


def _spread(waited: NDArray[np.float64]) -> dict[str, float]:
    p50, p99 = np.percentile(waited, [50, 99])
    return {
        "count": len(waited),
        "mean": round(float(waited.mean()), 1),
        "p50": round(float(p50), 1),
        "p99": round(float(p99), 1),
        "max": round(float(waited.max()), 1),
    }


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 1)
