"""What many runs say together: means, spread, and paired differences to FGD over the seeds."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.paired import paired

Result = Mapping[str, Any]
Row = dict[str, Any]

DATA = Path(__file__).parent / "data" / "openb"
AGAINST = "fgd"
PUBLISHED = {
    "random": "Random",
    "dotprod": "DotProd",
    "clustering": "GpuClustering",
    "packing": "GpuPacking",
    "bestfit": "BestFit",
    "fgd": "FGD",
}
COMPARED = ("95", "100", "130", "mean")
SETTING = ("workload", "variant")
ROW = (*SETTING, "policy", "history")


def summary(results: Iterable[Result]) -> list[Row]:
    """A row per workload, variant, policy and history, in the order of the results."""
    grouped: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in results:
        grouped[tuple(result[key] for key in ROW)].append(result)
    return [
        dict(zip(ROW, key, strict=True)) | _row(found, _base(grouped, key))
        for key, found in grouped.items()
    ]


def published(workload: str, policy: str) -> Mapping[str, float]:
    """The authors' mean allocation by arrived demand, where they published it."""
    text = (DATA / "fgd_published_reference.json").read_text(encoding="utf-8")
    known = json.loads(text)["results"].get(f"openb_pod_list_{workload}", {})
    found = known.get(PUBLISHED.get(policy, ""), {}).get("gpu_alloc_pct", {})
    return {level: mean for level, (mean, _) in found.items()}


def _base(grouped: Mapping[tuple[Any, ...], list[Result]], key: tuple[Any, ...]) -> list[Result]:
    """FGD's results in the same setting; it knows the whole mix whatever the history."""
    return grouped.get((*key[: len(SETTING)], AGAINST, None), [])


def _row(found: Sequence[Result], against: Sequence[Result]) -> Row:
    levels = list(found[0]["alloc_pct"])
    first = [result["first_refusal_pct"] for result in found]
    known = [value for value in first if value is not None]
    return {
        "seeds": sorted(result["seed"] for result in found),
        "alloc_pct": {
            level: _spread([result["alloc_pct"][level] for result in found]) for level in levels
        },
        "accepted_pct": _spread([result["accepted_pct"] for result in found]),
        "against_fgd": _differences(found, against),
        "first_refusal_pct": _spread(known) if len(known) == len(first) else None,
        "fragmented_pct": {
            level: _mean([result["fragmented_pct"][level] for result in found])
            for level in found[0]["fragmented_pct"]
        },
        "refusals": {
            group: _mean([result["refusals"].get(group, 0) for result in found])
            for group in sorted({group for result in found for group in result["refusals"]})
        },
        "refusals_before_95": _mean([result["refusals_before_95"] for result in found]),
        "decision_us": {
            part: _mean([result["decision_us"][part] for result in found])
            for part in ("median", "p99")
        },
    }


def _differences(found: Sequence[Result], against: Sequence[Result]) -> dict[str, Any]:
    """By level of demand; ``accepted`` is of the GPUs asked for. Empty without FGD."""
    mine = {result["seed"]: _values(result) for result in found}
    other = {result["seed"]: _values(result) for result in against}
    seeds = sorted(mine.keys() & other.keys())
    return {
        figure: paired([mine[seed][figure] - other[seed][figure] for seed in seeds])
        for figure in (mine[seeds[0]] if seeds else ())
    }


def _values(result: Result) -> dict[str, float]:
    levels = {level: value for level, value in result["alloc_pct"].items() if level in COMPARED}
    return levels | {"accepted": result["accepted_pct"]}


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": _mean(values),
        "stdev": round(statistics.stdev(values), 4) if len(values) > 1 else 0.0,
        "min": round(min(values), 4),
    }


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4)
