"""What many runs say together: means, spread, and paired differences to FGD over the seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]

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


def summary(results: Iterable[Result]) -> dict[str, dict[str, Any]]:
    """Per workload and policy."""
    grouped: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        grouped[result["workload"]][result["policy"]].append(result)
    return {
        workload: {
            policy: _policy(found, policies.get(AGAINST, [])) for policy, found in policies.items()
        }
        for workload, policies in grouped.items()
    }


def published(workload: str, policy: str) -> Mapping[str, float]:
    """The authors' mean allocation by arrived demand, where they published it."""
    text = (DATA / "fgd_published_reference.json").read_text(encoding="utf-8")
    known = json.loads(text)["results"].get(f"openb_pod_list_{workload}", {})
    found = known.get(PUBLISHED.get(policy, ""), {}).get("gpu_alloc_pct", {})
    return {level: mean for level, (mean, _) in found.items()}


def sign_test(differences: Sequence[float]) -> float:
    """How likely at least so one-sided a split is by chance (two-sided; ties left out)."""
    ups = sum(each > 0 for each in differences)
    downs = sum(each < 0 for each in differences)
    tails = sum(math.comb(ups + downs, k) for k in range(min(ups, downs) + 1))
    return float(min(1.0, 2 * tails / 2 ** (ups + downs)))


def _policy(found: Sequence[Result], against: Sequence[Result]) -> dict[str, Any]:
    levels = list(found[0]["alloc_pct"])
    first = [result["first_refusal_pct"] for result in found]
    known = [value for value in first if value is not None]
    return {
        "seeds": sorted(result["seed"] for result in found),
        "alloc_pct": {
            level: _spread([result["alloc_pct"][level] for result in found]) for level in levels
        },
        "against_fgd": {
            level: _paired(found, against, level)
            for level in ("95", "100", "130", "mean")
            if against and level in levels
        },
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


def _paired(found: Sequence[Result], against: Sequence[Result], level: str) -> dict[str, Any]:
    other = {result["seed"]: result["alloc_pct"][level] for result in against}
    differences = [r["alloc_pct"][level] - other[r["seed"]] for r in found if r["seed"] in other]
    if not differences:
        return {}
    return {
        "mean": _mean(differences),
        "better": sum(each > 0 for each in differences),
        "worse": sum(each < 0 for each in differences),
        "p": round(sign_test(differences), 4),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": _mean(values),
        "stdev": round(statistics.stdev(values), 4) if len(values) > 1 else 0.0,
        "min": round(min(values), 4),
    }


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4)
