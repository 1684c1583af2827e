"""Kill the worker at every point of every operation, recover, check; then a second time.

``make faults`` does it all; ``--again STORE:SCENARIO:POINT[:END[:SECOND]]``, as every violation is
named, does one injection once more.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.faults import report
from tests.faults.coverage import uncovered
from tests.faults.fleet import run
from tests.faults.lane import Job, Run
from tests.faults.points import Point, point
from tests.faults.sabotage import ALL as SABOTAGE
from tests.faults.scenarios import ALL, FIRST
from tests.faults.verdict import Figures

STORES = ("sqlite", "postgresql")
OUT = Path("build/faults.json")
# Turns of second kills that are queued; time ends them.
TURNS = 20


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=18.0, help="when to stop beginning more")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--quick", action="store_true", help="scenarios that cover each step once")
    parser.add_argument("--dry", action="store_true", help="name the points, kill nobody")
    parser.add_argument("--sample", type=int, default=0, help="so many points of each scenario")
    parser.add_argument("--at", default="", help="points whose words contain this")
    parser.add_argument("--end", default="", help="only this end after a kill")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", default="", metavar="STORE:SCENARIO:POINT[:END[:SECOND]]")
    parser.add_argument("--sabotage", choices=SABOTAGE, help="with this guard taken away")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def _jobs(given: argparse.Namespace) -> list[Job]:
    """Kills at each point first, then second kills, one slice of each scenario after the other."""
    if given.again:
        return [_one(given.again)]
    names = [name for name in (FIRST if given.quick else ALL) if given.only in name]
    some = {"dry": given.dry, "sample": given.sample, "about": given.at, "end": given.end}
    every = [
        Job(scenario=name, store=store, **some) for name in names for store in given.store or STORES
    ]
    random.Random(given.seed).shuffle(every)
    turns = range(0 if given.quick or any(some.values()) else TURNS)
    again = [Job(scenario=e.scenario, store=e.store, turn=turn) for turn in turns for e in every]
    return [*every, *again]


def _one(text: str) -> Job:
    store, name, at, *rest = text.split(":")
    end, second = [*rest, "", "0"][:2] if len(rest) != 1 else (rest[0], "0")
    return Job(scenario=name, store=store, at=int(at), end=end, second=int(second))


def main() -> int:
    given = _arguments()
    if given.sabotage:
        SABOTAGE[given.sabotage]()
    done = _run(given)
    report.write(done, given.out)
    print("\n".join(report.lines(done)))
    return 1 if done["violations"] or done["uncovered"] or done["scenarios_left_out"] else 0


def _run(given: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="vgpumgr-faults-", dir=_memory()))
    shared = Run(seed=given.seed, until=began + given.minutes * 60, folder=folder)
    found: dict[tuple[str, str, str], Figures] = {}
    passed: list[Point] = []
    jobs = _jobs(given)
    left = sum(job.turn is None for job in jobs)
    try:
        for job, answer in run(shared, jobs, given.lanes):
            left -= job.turn is None
            scenario = ALL[job.scenario]
            key = (scenario.operation, scenario.part, job.store)
            figures = Figures.of(answer["figures"])
            found.setdefault(key, Figures()).add(figures)
            passed += [point(each) for each in answer["points"]]
            _tell(job, figures, answer["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    some = given.only or given.again or left
    facts = {"seed": given.seed, "scenarios_left_out": left}
    facts["seconds"] = round(time.monotonic() - began, 1)
    return report.whole(found, () if some else uncovered(passed), **facts)


def _tell(job: Job, figures: Figures, seconds: float) -> None:
    turn = "once" if job.turn is None else f"twice, {job.turn}"
    what = f"{figures.injections} injections, {len(figures.broken)} broken, {seconds:.1f} s"
    print(f"{job.store}:{job.scenario} {turn}: {what}", file=sys.stderr)


def _memory() -> str | None:
    """SIGKILL takes no memory of the kernel's: a file system in it is as durable, and quicker."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
