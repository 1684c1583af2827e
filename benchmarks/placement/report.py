"""The results as a page of Markdown with a chart per workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.placement.metrics import GROUPS
from benchmarks.placement.summary import published
from benchmarks.placement.svg import chart

SHOWN_FROM = 80.0


def write_report(folder: Path, document: Mapping[str, Any]) -> None:
    """``report.md`` and the charts into the folder, from the JSON's content."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Placement", "", f"History {document['history']}, arrivals {document['variant']}."]
    for workload, policies in document["summary"].items():
        lines += ["", f"## {workload}", "", *_table(workload, policies)]
        lines += ["", *_refusals(policies), *_bounds(document["bound"].get(workload, {}))]
        curves = _curves(policies)
        if curves:
            axes = ("arrived demand, % of the fleet's GPUs", "allocated, %")
            text = chart(workload, axes, curves, SHOWN_FROM)
            (folder / f"{workload}.svg").write_text(text, encoding="utf-8")
            lines += ["", f"![allocation by arrived demand]({workload}.svg)"]
    (folder / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(workload: str, policies: Mapping[str, Any]) -> Iterator[str]:
    levels = [
        level
        for level in ("95", "100", "130", "mean")
        if level in next(iter(policies.values()))["alloc_pct"]
    ]
    head = [f"@{level}" for level in levels] + [f"published @{x}" for x in levels if x != "mean"]
    head += [f"against FGD @{level}" for level in levels]
    head += ["first refusal", "refused before 95", "µs median / p99"]
    yield "| policy | " + " | ".join(head) + " |"
    yield "|---" * (len(head) + 1) + "|"
    for policy, found in policies.items():
        cells = [_mean(found["alloc_pct"][level]) for level in levels]
        known = published(workload, policy)
        cells += [f"{known[x]:.2f}" if x in known else "" for x in levels if x != "mean"]
        cells += [_paired(found["against_fgd"].get(level)) for level in levels]
        first = found["first_refusal_pct"]
        cells += [_mean(first) if first else "", f"{found['refusals_before_95']:.1f}"]
        cells.append("{median:.0f} / {p99:.0f}".format(**found["decision_us"]))
        yield f"| {policy} | " + " | ".join(cells) + " |"


def _refusals(policies: Mapping[str, Any]) -> Iterator[str]:
    groups = list(GROUPS)
    yield "| refused, mean | " + " | ".join(groups) + " |"
    yield "|---" * (len(groups) + 1) + "|"
    for policy, found in policies.items():
        counts = (f"{found['refusals'].get(group, 0):.0f}" for group in groups)
        yield f"| {policy} | " + " | ".join(counts) + " |"


def _bounds(bounds: Mapping[str, Any]) -> Iterator[str]:
    if bounds:
        yield ""
        yield "| seed | free @95 | free @100 | free @130 | all fits to | @130 with all that |"
        yield "|---|---|---|---|---|---|"
    for seed, found in bounds.items():
        free = " | ".join(f"{value:.2f}" for value in found["free"].values())
        yield f"| {seed} | {free} | {found['fits_to_pct']:.2f} | {found['prefix_pct']:.2f} |"


def _curves(policies: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    return {
        policy: [
            (float(level), spread["mean"])
            for level, spread in found["alloc_pct"].items()
            if level != "mean" and float(level) >= SHOWN_FROM
        ]
        for policy, found in policies.items()
        if "mean" not in found["alloc_pct"]
    }


def _mean(spread: Mapping[str, float]) -> str:
    return f"{spread['mean']:.2f} ± {spread['stdev']:.2f}"


def _paired(difference: Mapping[str, Any] | None) -> str:
    if not difference:
        return ""
    return "{mean:+.2f} ({better}:{worse}, p {p:.3f})".format(**difference)
