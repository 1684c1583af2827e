"""What placement set out to reach, beside what the JSON of a folder says; a table in Markdown.

python -m benchmarks.placement.targets DIR
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.placement.summary import AGAINST, published
from benchmarks.placement.tables import table

Row = Mapping[str, Any]
Rows = Sequence[Row]

OURS, BULK = "vgpumgr", "vgpumgr-bulk"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and what it should be at least, or at most."""

    what: str
    got: float
    wanted: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.got <= self.wanted if self.at_most else self.got >= self.wanted


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 without a folder of results. What was not run is left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(argv).folder
    if not folder.is_dir():
        print(f"error: {folder} is no folder; make bench-placement writes one", file=sys.stderr)
        return 2
    print("\n".join(page(folder)))
    return 0


def page(folder: Path) -> Iterator[str]:
    """The table."""
    yield from table(["", "target", "measured", "reached"], map(_cells, targets(folder)))


def _cells(target: Target) -> list[str]:
    wanted = f"{'≤' if target.at_most else '≥'} {target.wanted:g}"
    digits = 2 if abs(target.got) >= 1 else 3
    return [target.what, wanted, f"{target.got:.{digits}f}", "yes" if target.reached else "no"]


def targets(folder: Path) -> Iterator[Target]:
    """Of every experiment that has a JSON in the folder."""
    found = {"inflation": _inflation, "windows": _windows, "history": _history, "mig": _mig,
             "vdi": _vdi}  # fmt: skip
    for name, judge in found.items():
        file = folder / f"{name}.json"
        if file.is_file():
            yield from judge(json.loads(file.read_text(encoding="utf-8"))["summary"])


def _inflation(rows: Rows) -> Iterator[Target]:
    ours = {row["workload"]: row for row in rows if row["policy"] == OURS}
    fgd = {row["workload"]: row for row in rows if row["policy"] == AGAINST}
    if default := ours.get("default"):
        first = default["first_refusal_pct"]
        yield Target("default, allocated @130", _at(default, "130"), 95.9)
        yield Target("first refusal, worst seed", first["min"] if first else 130.0, 95.6)
        yield Target("refusals before 95 % arrived", default["refusals_before_95"], 0, at_most=True)
    ours = {name: row for name, row in ours.items() if name in fgd}
    for level, wanted in (("100", 1.2), ("130", 0.7)) if ours else ():
        ahead = [_at(row, level) - _at(fgd[name], level) for name, row in ours.items()]
        yield Target(f"ahead of FGD @{level}, mean of {len(ours)} workloads",
                     statistics.fmean(ahead), wanted)  # fmt: skip
        known = {name: published(name, AGAINST).get(level) for name in ours}
        apart = [(_at(ours[name], level) - fgd, name) for name, fgd in known.items() if fgd]
        for worst, name in sorted(apart)[:1]:
            yield Target(f"against published FGD @{level}, worst: {name}", worst, -0.05)
    if "gpuspec20" in ours:
        yield Target("gpuspec20, allocated @100", _at(ours["gpuspec20"], "100"), 95.4)
    if cpu := ours.get("cpu250"):
        yield Target("cpu250, allocated @130", _at(cpu, "130"), 94.7)
        most = fgd["cpu250"]["refusals"]["cpu"]
        yield Target("cpu250, CPU-only refused (FGD's)", cpu["refusals"]["cpu"], most, at_most=True)


def _windows(rows: Rows) -> Iterator[Target]:
    for row in rows:
        if row["policy"] in (OURS, BULK) and row["variant"] == "windows:200":
            yield Target(f"{row['policy']}, {row['variant']} @130", _at(row, "130"), 95.0)


def _history(rows: Rows) -> Iterator[Target]:
    for row in rows:
        wanted = {0.05: 95.6, 0.0: 95.35}.get(row["history"])
        if wanted and row["workload"] == "default":
            yield Target(f"history {row['history']:g}, default @130", _at(row, "130"), wanted)


def _mig(rows: Rows) -> Iterator[Target]:
    for row in (row for row in rows if row["load"] == 1.0):
        if row["policy"] == OURS:
            ahead = row["against_base"]["mean"]
            yield Target(f"MIG {row['mix']}, GPU accepted ahead of the FGD table", ahead, 1.5)
        if row["policy"] == "values + 3 moves":
            yield from _moving("MIG", row, short=1.0, moves=row["moves"], most=0.05)


def _vdi(rows: Rows) -> Iterator[Target]:
    for row in (row for row in rows if row["load"] == 0.95):
        if row["policy"] == "least-fragmentation + 8 moves":
            yield from _moving("VDI", row, short=0.7, moves=row["moved_share"], most=0.03)


def _moving(what: str, row: Row, *, short: float, moves: float, most: float) -> Iterator[Target]:
    apart = row["against_free"]["mean"]
    yield Target(f"{what} {row['mix']}, {row['policy']} against free migration", apart, -short)
    yield Target(f"{what} {row['mix']}, moves per VM or VMs moved", moves, most, at_most=True)


def _at(row: Row, level: str) -> float:
    return float(row["alloc_pct"][level]["mean"])


if __name__ == "__main__":
    sys.exit(main())
