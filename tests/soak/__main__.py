"""``make soak``: rules in any order until enough operations ran; what is found is kept by seed.

``python -m tests.soak --seed N --shrink`` gives one seed's failure again, as short as it gets.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from pathlib import Path

from tests.soak.runner import run, soak


def main() -> int:
    """Exit status 1 when anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seed", type=int, help="this one alone, in this process")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/soak.json"))
    asked = parser.parse_args()
    if asked.seed is not None:
        run(asked.seed, shrink=asked.shrink)
        return 0
    asked.out.parent.mkdir(exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(asked.processes, maxtasksperchild=8) as pool:
        return int(bool(soak(pool, asked.first_seed, asked.operations, asked.out)))


if __name__ == "__main__":
    raise SystemExit(main())
