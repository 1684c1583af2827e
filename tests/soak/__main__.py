"""``make soak``: rules in any order until enough operations ran; what is found is kept by seed.

``python -m tests.soak --seed N`` gives one seed's failure again, as short as it gets, as a test.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from multiprocessing.pool import Pool
from pathlib import Path

from tests.soak.report import Report
from tests.soak.runner import explored, prepare, shorten

# hypothesis itself gives up shrinking after five minutes.
_SHRINKING_S = 400.0


def main() -> int:
    """Exit status 1 when anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--minutes", type=float, default=45.0, help="the longest it may take")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seed", type=int, help="this one alone, in this process")
    parser.add_argument("--out", type=Path, default=Path("build/soak.json"))
    asked = parser.parse_args()
    if asked.seed is not None:
        found = shorten(asked.seed)
        print(found.failure, found.test, sep="\n")
        return int(bool(found.failure))
    asked.out.parent.mkdir(exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(asked.processes, prepare) as pool:
        report = soak(pool, asked)
    return int(bool(report.failed))


def soak(pool: Pool, asked: argparse.Namespace) -> Report:
    """Seeds from the first one on; each that failed is made short at the end."""
    report = Report(asked.operations, asked.processes)
    began = time.monotonic()

    def keep() -> None:
        text = json.dumps(report.plain(time.monotonic() - began), indent=1)
        asked.out.write_text(text + "\n")

    until = began + 60 * asked.minutes
    for found in explored(pool, asked.processes, asked.first_seed, until):
        report.add(found)
        keep()
        print(f"{report.operations} operations, {len(report.failed)} failing seeds", flush=True)
        if report.operations >= asked.operations:
            break
    shortened = [pool.apply_async(shorten, (number,)) for number in sorted(report.failed)]
    for each in shortened:
        report.shortened(each.get(_SHRINKING_S))
        keep()
    for found in report.failed.values():
        print(found.failure, found.test, sep="\n", flush=True)
    return report


if __name__ == "__main__":
    raise SystemExit(main())
