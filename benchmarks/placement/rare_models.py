"""Workloads in which few tasks name GPU models, each in its own words; CSV files out.

python -m benchmarks.placement.rare_models build/placement/rare

``rare02`` and ``rare05`` are openb's default tasks, but two and five in a hundred of those that
want a GPU name models, as gpuspec20's do; ``raremulti05`` is the same of multigpu30.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.placement.summary import DATA

_SEED = 20
WORKLOADS = {
    "rare02": ("default", 0.02),
    "rare05": ("default", 0.05),
    "raremulti05": ("multigpu30", 0.05),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (base, share) in WORKLOADS.items():
        write(folder / f"openb_pod_list_{name}.csv.gz", naming_models(_read(base), share))
    return 0


def naming_models(rows: list[dict[str, str]], share: float) -> list[dict[str, str]]:
    """The tasks, that share of those with a GPU naming models; the same each time."""
    sets = [row["gpu_spec"] for row in _read("gpuspec20") if row.get("gpu_spec")]
    random = np.random.default_rng((_SEED, round(1000 * share)))
    with_gpu = [number for number, row in enumerate(rows) if int(row["num_gpu"])]
    chosen = random.choice(with_gpu, round(share * len(with_gpu)), replace=False)
    named = dict(zip(chosen.tolist(), random.choice(sets, len(chosen)).tolist(), strict=True))
    return [row | {"gpu_spec": named.get(number, "")} for number, row in enumerate(rows)]


def write(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """As the trace's own files are."""
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _read(workload: str) -> list[dict[str, str]]:
    path = DATA / f"openb_pod_list_{workload}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    sys.exit(main())
