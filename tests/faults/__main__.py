"""Kill the worker at every point of every operation, recover, check; then a second time.

``make faults`` does it all; ``--again STORE:SCENARIO:POINT[:END[:SECOND]]``, as every violation is
named, does one injection once more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults import memory, order, report
from tests.faults.coverage import each_once, record, recorded, uncovered
from tests.faults.fleet import Fleet
from tests.faults.lane import Job, Run
from tests.faults.points import Pair
from tests.faults.sabotage import ALL as SABOTAGE
from tests.faults.scenarios import ALL, ON_SERVER
from tests.faults.tally import Tally
from tests.faults.verdict import Figures

STORES = ("sqlite", "postgresql")
OUT = Path("build/faults.json")
# Of a quick run: so many points of a scenario on the server, so many jobs of pairs.
ON_SERVER_POINTS, QUICK_PAIRS = 2, 12


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=45.0, help="when to stop beginning more")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--quick", action="store_true", help="each kind of step once")
    parser.add_argument("--dry", action="store_true", help="name the points, kill nobody")
    parser.add_argument("--record", action="store_true", help="write covered.json anew")
    parser.add_argument("--sample", type=int, default=0, help="so many points of each scenario")
    parser.add_argument("--at", default="", help="points whose words contain this")
    parser.add_argument("--end", default="", help="only this end after a kill")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", default="", metavar="STORE:SCENARIO:POINT[:END[:SECOND]]")
    parser.add_argument("--sabotage", choices=SABOTAGE, help="with this guard taken away")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


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
    folder = Path(tempfile.mkdtemp(prefix="vgpumgr-faults-", dir=memory.folder()))
    shared = Run(seed=given.seed, until=began + given.minutes * 60, folder=folder)
    fleet = Fleet(shared, given.lanes)
    try:
        tally, left_out = _rounds(given, fleet)
    finally:
        fleet.close()
        shutil.rmtree(folder, ignore_errors=True)
    if given.record:
        record(tally.passed)
    some = given.only or given.again or left_out
    facts = {"seed": given.seed, "scenarios_left_out": left_out}
    facts["seconds"] = round(time.monotonic() - began, 1)
    return report.whole(tally.figures, () if some else uncovered(tally.points), **facts)


def _rounds(given: argparse.Namespace, fleet: Fleet) -> tuple[Tally, int]:
    """What there is to do, round by round; and how many scenarios time has left out."""
    tally = Tally()
    if given.quick and _whole(given):
        return tally, _quick(given, fleet, tally)
    first = [_one(given.again)] if given.again else order.shuffled(_singles(given), given.seed)
    left_out = _do(fleet, first, tally)
    if _whole(given) and not given.again:
        _do(fleet, order.pairs(tally.pairs, given.seed), tally)
    return tally, left_out


def _whole(given: argparse.Namespace) -> bool:
    return not (given.dry or given.sample or given.at or given.end)


def _names(given: argparse.Namespace) -> list[str]:
    every = sorted({*recorded().values(), *ON_SERVER}) if given.quick else list(ALL)
    return [name for name in every if given.only in name]


def _singles(given: argparse.Namespace) -> list[Job]:
    some = {"dry": given.dry, "sample": given.sample, "about": given.at, "end": given.end}
    return [
        Job(scenario=name, store=store, **some)
        for name in _names(given)
        for store in given.store or STORES
    ]


def _quick(given: argparse.Namespace, fleet: Fleet, tally: Tally) -> int:
    """Each transition of each kind of step once on SQLite, a few on the server, a few pairs."""
    names, stores = _names(given), given.store or STORES
    left_out = _do(fleet, [Job(scenario=n, store="sqlite", dry=True) for n in names], tally)
    chosen = [
        Job(scenario=name, store="sqlite", points=points)
        for name, points in each_once(tally.passed).items()
    ]
    if "postgresql" in stores:
        server = [name for name in names if name in ON_SERVER]
        some = {"store": "postgresql", "sample": ON_SERVER_POINTS}
        chosen += [Job(scenario=name, **some) for name in server]
    left_out += _do(fleet, order.shuffled(chosen, given.seed), tally)
    _do(fleet, order.pairs(tally.pairs, given.seed)[:QUICK_PAIRS], tally)
    return left_out


def _do(fleet: Fleet, jobs: Sequence[Job], tally: Tally) -> int:
    """How many were not begun in time."""
    left = len(jobs)
    for job, answer in fleet.do(jobs):
        left -= 1
        _tell(job, tally.add(job, answer), answer["seconds"])
    return left


def _one(text: str) -> Job:
    store, name, at, *rest = text.split(":")
    if len(rest) > 1:
        pair = Pair(int(at), rest[0], (int(rest[1]),))
        return Job(scenario=name, store=store, pairs=(pair,))
    return Job(scenario=name, store=store, points=(int(at),), end="".join(rest))


def _tell(job: Job, figures: Figures, seconds: float) -> None:
    what = "pairs" if job.pairs else "dry" if job.dry else "singles"
    kills = f"{figures.injections} kills, {len(figures.broken)} broken, {seconds:.1f} s"
    print(f"{job.store}:{job.scenario} {what}: {kills}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
