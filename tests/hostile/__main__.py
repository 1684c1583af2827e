"""``python -m tests.hostile``: fifty lies and more in every field, faults found, what it cost.

Each process takes a part of the fields; ``--part 1/2`` is the first of two, alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.hostile.parts import one, summed, written
from tests.hostile.tally import Tally
from tests.hostile.telling import PER_FIELD, TOGETHER, Extent
from tests.hostile.trials import TRIALS


def main() -> int:
    """Exit 1 where anything was a fault of ours."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="the longest it may take")
    parser.add_argument("--per-field", type=int, default=PER_FIELD)
    parser.add_argument("--together", type=int, default=TOGETHER, help="hosts that lie at a time")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", type=_part, metavar="N/OF")
    names = [each.name for each in TRIALS]
    parser.add_argument("--only", nargs="*", choices=names, default=[], metavar="TRIAL")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    given = parser.parse_args()
    parts = [given.part] if given.part else _parts(given.processes)
    tally = told(given, parts)
    found = written(tally, given.json)
    print(json.dumps({key: part for key, part in found.items() if key != "per_field"}, indent=1))
    return 1 if tally.faults else 0


def told(given: argparse.Namespace, parts: list[tuple[int, int]]) -> Tally:
    """All parts, one process each."""
    extents = [
        Extent(
            seed=given.seed,
            minutes=given.minutes,
            per_field=given.per_field,
            only=given.only,
            part=part,
            together=given.together,
            weigh=True,
        )
        for part in parts
    ]
    kept = [given.json and given.json.with_suffix(f".{part}.json") for part, _ in parts]
    if len(parts) == 1:
        return one(extents[0], kept[0])
    with ProcessPoolExecutor(len(parts), multiprocessing.get_context("spawn")) as pool:
        return summed(pool.map(one, extents, kept))


def _part(text: str) -> tuple[int, int]:
    part, parts = map(int, text.split("/"))
    return part, parts


def _parts(processes: int) -> list[tuple[int, int]]:
    return [(number + 1, processes) for number in range(processes)]


if __name__ == "__main__":
    sys.exit(main())
