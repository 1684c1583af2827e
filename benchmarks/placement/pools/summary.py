"""What the runs of a pool say together: means, spread, and paired differences over the seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.placement.paired import paired, shown
from benchmarks.placement.pools.experiment import FREE
from benchmarks.placement.tables import table

Row = Mapping[str, Any]

FIGURES = ("count_pct", "units_pct", "held_pct", "moves", "moved_share")


def summary(results: Sequence[Row], base: str) -> list[dict[str, Any]]:
    """A row per mix, load and policy, with the differences in accepted GPU to ``base`` and to
    free migration on the same seeds.
    """
    by = {(r["mix"], r["load"], r["policy"], r["seed"]): r for r in results}
    found = []
    for mix, load, policy in dict.fromkeys((r["mix"], r["load"], r["policy"]) for r in results):
        seeds = [seed for *key, seed in by if key == [mix, load, policy]]
        mine = [by[mix, load, policy, seed] for seed in seeds]
        row: dict[str, Any] = {"mix": mix, "load": load, "policy": policy, "seeds": seeds}
        for figure in FIGURES:
            values = np.array([each[figure] for each in mine])
            row[figure] = round(float(values.mean()), 4)
            row[f"{figure}_stdev"] = round(float(values.std(ddof=len(values) > 1)), 4)
        for key, other in ("against_base", base), ("against_free", FREE):
            pairs = [(by[mix, load, policy, s], by.get((mix, load, other, s))) for s in seeds]
            apart = [a["units_pct"] - b["units_pct"] for a, b in pairs if b]
            row[key] = paired(apart) if apart else None
        found.append(row)
    return found


def report(document: Row) -> Iterator[str]:
    """A page in Markdown: a table per load."""
    yield f"# {document['name']}: {document['gpus']} GPUs, {document['lifetimes']:g} lifetimes"
    rows = document["summary"]
    for load in dict.fromkeys(row["load"] for row in rows):
        head = ["mix", "policy", "accepted, count %", "accepted, GPU %"]
        head += [f"against {document['base']}", "against free migration", "moves per VM", "moved"]
        here = [row for row in rows if row["load"] == load]
        yield from ("", f"## Offered load {load:g}", "", *table(head, _lines(here, document)))


def _lines(rows: Sequence[Row], document: Row) -> Iterator[list[str]]:
    for mix in dict.fromkeys(row["mix"] for row in rows):
        yield from (_line(row) for row in rows if row["mix"] == mix)
        bound = document["bound"][mix][f"{rows[0]['load']:g}"]
        yield [mix, "*no policy exceeds*", "", f"{bound:.2f}", "", "", "", ""]


def _line(row: Row) -> list[str]:
    return [
        row["mix"],
        row["policy"],
        f"{row['count_pct']:.2f}",
        f"{row['units_pct']:.2f} ± {row['units_pct_stdev']:.2f}",
        shown(row["against_base"]),
        shown(row["against_free"]),
        f"{row['moves']:.3f}" if row["moves"] else "",
        f"{100 * row['moved_share']:.1f} %" if row["moves"] else "",
    ]
