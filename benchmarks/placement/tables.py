"""Tables of a report, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.placement.metrics import GROUPS
from benchmarks.placement.paired import paired, shown
from benchmarks.placement.summary import AGAINST, published

Row = Mapping[str, Any]

REACHED = ("fits_to_pct", "prefix_pct")
LEVELS = ("95", "100", "130", "mean")


def label(row: Row) -> str:
    """The policy, and how much of the workload it knew."""
    return row["policy"] if row["history"] is None else f"{row['policy']}, {row['history']:g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, line by line."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def overview(results: Sequence[Row]) -> Iterator[str]:
    """Over all workloads of each variant: means, and differences to FGD, run by run."""
    for variant in dict.fromkeys(result["variant"] for result in results):
        here = [result for result in results if result["variant"] == variant]
        workloads = list(dict.fromkeys(result["workload"] for result in here))
        levels = [level for level in LEVELS[1:] if level in here[0]["alloc_pct"]]
        columns = [*(f"@{level}" for level in levels), "accepted"]
        head = [f"{variant}: {', '.join(workloads)}", *columns]
        head += [f"against FGD {column}" for column in columns]
        head += [f"worst workload @{level}" for level in levels if len(workloads) > 1]
        yield from table(head, _over_workloads(here, levels, len(head)))
        yield ""


def _over_workloads(
    results: Sequence[Row], levels: Sequence[str], width: int
) -> Iterator[list[str]]:
    base = {_run(result): _figures(result) for result in results if result["policy"] == AGAINST}
    for name in dict.fromkeys(map(label, results)):
        mine = [result for result in results if label(result) == name]
        figures = [*levels, "accepted"]
        apart = {
            figure: [
                (r["workload"], _figures(r)[figure] - base[_run(r)][figure])
                for r in mine
                if _run(r) in base
            ]
            for figure in figures
        }
        cells = [
            name,
            *(f"{statistics.fmean(_figures(r)[figure] for r in mine):.2f}" for figure in figures),
            *(shown(_paired(apart[figure])) for figure in figures),
            *(_worst(apart[level]) for level in levels),
        ]
        yield cells[:width]


def _run(result: Row) -> tuple[str, int]:
    return result["workload"], result["seed"]


def _figures(result: Row) -> dict[str, float]:
    return {**result["alloc_pct"], "accepted": result["accepted_pct"]}


def _paired(apart: Sequence[tuple[str, float]]) -> dict[str, Any] | None:
    return paired([each for _, each in apart]) if apart else None


def _worst(apart: Sequence[tuple[str, float]]) -> str:
    names = dict.fromkeys(name for name, _ in apart)
    means = [(statistics.fmean(x for n, x in apart if n == name), name) for name in names]
    return "{:+.2f} {}".format(*min(means)) if means else ""


def policies(rows: Sequence[Row]) -> Iterator[str]:
    """The policies of one setting."""
    levels = [level for level in LEVELS if level in rows[0]["alloc_pct"]]
    plain = rows[0]["variant"] == "plain"
    head = ["policy", *(f"@{level}" for level in levels), "accepted"]
    head += [f"published @{level}" for level in levels if plain]
    head += [f"against FGD @{level}" for level in levels]
    head += ["first refusal", "refused before 95"] if "mean" not in levels else []
    head += ["µs median / p99"]
    yield from table(head, (_policy(row, levels, plain) for row in rows))


def _policy(row: Row, levels: Sequence[str], plain: bool) -> list[str]:
    known = published(row["workload"], row["policy"]) if plain else {}
    first = row["first_refusal_pct"]
    cells = [label(row), *(_spread(row["alloc_pct"][level]) for level in levels)]
    cells += [f"{row['accepted_pct']['mean']:.2f}"]
    cells += [f"{known[level]:.2f}" if level in known else "" for level in levels if plain]
    cells += [shown(row["against_fgd"].get(level)) for level in levels]
    if "mean" not in levels:
        cells += [_spread(first) if first else "", f"{row['refusals_before_95']:.1f}"]
    return [*cells, "{median:.0f} / {p99:.0f}".format(**row["decision_us"])]


def refusals(rows: Sequence[Row]) -> Iterator[str]:
    """Refusals by kind of task, on average over seeds."""
    rest = {group for row in rows for group in row["refusals"]} - set(GROUPS)
    groups = [*GROUPS, *sorted(rest)]
    counts = ([f"{row['refusals'].get(group, 0):.0f}" for group in groups] for row in rows)
    named = ([label(row), *cells] for row, cells in zip(rows, counts, strict=True))
    yield from table(["refused, mean", *groups], named)


def bounds(found: Mapping[str, Any]) -> Iterator[str]:
    """The bounds by seed; nothing where there are none."""
    if not found:
        return
    head = ["seed", "free @95", "free @100", "free @130", "all fits to", "@130 with all that"]
    rows = (
        [seed, *(f"{value:.2f}" for value in (*each["free"].values(), *map(each.get, REACHED)))]
        for seed, each in found.items()
    )
    yield ""
    yield from table(head, rows)


def _spread(spread: Mapping[str, float]) -> str:
    return f"{spread['mean']:.2f} ± {spread['stdev']:.2f}"
