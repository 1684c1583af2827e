"""Emptying GPUs by moves, beside the optimum; JSON out.

python -m benchmarks.placement.repack --json OUT [--seeds 500-506] [--seconds 30] [--large 2]

Exact: five kinds of fleets of 16, 32 and 64 GPUs; half, and nine tenths, of the GPUs that could be
empty are to be. A number of moves is optimal where the VMs of the emptiest GPUs are no fewer, or
where CP-SAT says so (it is asked for every fleet of 16 GPUs, and wherever counting proves nothing;
first with VMs of one size pooled, where nothing but size tells them apart, which is a bound).
Every step of every plan is checked. Large: the same with 1,000 GPUs, for the time it takes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.options import seeds, typed
from benchmarks.placement.repacking.checker import check
from benchmarks.placement.repacking.problem import counted, problem
from benchmarks.placement.repacking.snapshots import Snapshot, shapes, snapshot
from benchmarks.placement.solver import Solver
from vgpumgr.model.defrag import DefragMoves, EmptyGpus
from vgpumgr.placement.defrag.move_search import plan_moves

SHARES = (0.5, 0.9)
SIZES = (16, 32, 64)
ALWAYS_ASKED = 16
LARGE = 1_000

Row = dict[str, Any]


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    words = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.repack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--json", type=Path, required=True, metavar="OUT")
    words.add_argument("--seeds", type=typed(seeds), default=tuple(range(500, 507)))
    words.add_argument("--seconds", type=float, default=30.0, help="for CP-SAT, per question (30)")
    words.add_argument("--large", type=int, default=2, help="seeds of 1,000 GPUs (2)")
    given = words.parse_args(argv)
    with Solver("benchmarks.placement.repacking.oracle") as oracle:
        exact = [row for row in _exact(given.seeds, given.seconds, oracle) if _told(row)]
    large = [row for row in _large(given.seeds[: given.large]) if _told(row)]
    found = {"summary": summary(exact, large), "exact": exact, "large": large}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["summary"], indent=1))
    return 0


def summary(exact: Sequence[Row], large: Sequence[Row]) -> Row:
    """What the goals are about."""
    proven = [row for row in exact if row["optimum"] is not None]
    above = [math.inf if row["moves"] is None else row["moves"] - row["optimum"] for row in proven]
    cpu = [row["cpu_ms"] for row in large]
    return {
        "instances": len(exact),
        "optimum_known": len(proven),
        "at_optimum": sum(each == 0 for each in above),
        "one_above": sum(each == 1 for each in above),
        "more_above": sum(each > 1 for each in above),
        "not_known": [row for row in exact if row["optimum"] is None],
        "exact_cpu_ms": _spread([row["cpu_ms"] for row in exact]),
        "large_cpu_ms": _spread(cpu),
        "large_wall_ms": _spread([row["wall_ms"] for row in large]),
        "large_under_200_ms_cpu": f"{sum(each < 200 for each in cpu)} of {len(cpu)}",
    }


def _exact(numbers: Sequence[int], seconds: float, oracle: Solver) -> Iterator[Row]:
    for name, shape in shapes().items():
        for gpus in SIZES:
            for seed in numbers:
                snap = snapshot(shape, gpus, seed)
                for share in SHARES:
                    yield {
                        "kind": name, "gpus": gpus, "seed": seed, "share": share,
                        **_one(snap, round(share * snap.allowed), seconds, oracle),
                    }  # fmt: skip


def _one(snap: Snapshot, empty: int, seconds: float, oracle: Solver) -> Row:
    """Where so many cannot be empty at all, as many as can."""
    row = _timed(snap, empty)
    asked = problem(snap, empty, seconds)
    bound = counted(asked)
    if row["moves"] == bound and len(asked["gpus"]) > ALWAYS_ASKED:
        return {**row, "optimum": bound, "proof": "count"}
    answer: Row = {"bound": 0, "status": ""}
    if snap.poolable:
        answer = oracle.ask({**asked, "pooled": True})
    bound = max(bound, answer["bound"] or 0)
    if answer["status"] != "infeasible" and row["moves"] != bound:
        answer = oracle.ask(asked)
    if answer["status"] == "infeasible":
        return _one(snap, empty - 1, seconds, oracle)
    found, known = answer.get("moves"), max(bound, answer["bound"] or 0)
    best = min(each for each in (found, row["moves"], math.inf) if each is not None)
    proven = best == known
    return {
        **row,
        "optimum": best if proven else None,
        "proof": "cp-sat" if proven else None,
        "bound": known,
        "cp_sat": found,
    }


def _large(numbers: Sequence[int]) -> Iterator[Row]:
    for name, shape in shapes().items():
        for seed in numbers:
            snap = snapshot(shape, LARGE, seed)
            for share in SHARES:
                empty = round(share * snap.allowed)
                row = min((_timed(snap, empty) for _ in range(3)), key=lambda each: each["cpu_ms"])
                yield {"kind": name, "gpus": LARGE, "seed": seed, "share": share, **row}


def _timed(snap: Snapshot, empty: int) -> Row:
    wall, cpu = time.perf_counter(), time.process_time()
    found = plan_moves(snap.fleet, snap.residents, EmptyGpus(gpus=empty))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    moves = found.moves if isinstance(found, DefragMoves) else None
    if moves is not None:
        check(snap.fleet, snap.residents, moves, empty)
    return {
        "empty": empty,
        "vms": len(snap.residents),
        "moves": None if moves is None else len(moves),
        "hops": sum(move.hop for move in moves or ()),
        "gib": sum(move.mib for move in moves or ()) // 1024,
        "cpu_ms": round(1000 * cpu, 1),
        "wall_ms": round(1000 * wall, 1),
    }


def _spread(values: Sequence[float]) -> Row:
    return {
        "median": round(statistics.median(values), 1) if values else None,
        "max": max(values, default=None),
    }


def _told(row: Row) -> bool:
    words = (f"{key}={value}" for key, value in row.items())
    print(" ".join(words), file=sys.stderr, flush=True)
    return True


if __name__ == "__main__":
    sys.exit(run())
