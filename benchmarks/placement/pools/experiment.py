"""All runs of an experiment: mixes × loads × seeds × policies; figures, and their differences."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placement.pools.arrivals import arrivals
from benchmarks.placement.pools.boards import Board
from benchmarks.placement.pools.bound import FreeMigration, SameSize
from benchmarks.placement.pools.policies import Budget, Free, Ranked, RoundRobin
from benchmarks.placement.pools.rankings import noted
from benchmarks.placement.pools.simulate import Pool, Run, simulate

FREE, ROUND_ROBIN = "free-migration", "round-robin"


@dataclass(frozen=True, slots=True)
class Experiment:
    """``policies`` maps a name to a ranking and a budget; ``base`` is what others are held to.

    ``mixes`` are those run unless others are named.
    """

    board: Callable[[], Board]
    policies: Mapping[str, tuple[str, Budget | None]]
    base: str
    gpus: int
    bound: Callable[..., FreeMigration | SameSize]
    warm: float
    lasting: float
    mixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    mix: str
    load: float
    seed: int
    policy: str


def main(experiment: Experiment, argv: Sequence[str] | None, about: str | None) -> int:
    """Run what the arguments name, print a table, write the JSON."""
    args = _parser(experiment, about).parse_args(argv)
    jobs = [Job(*each) for each in product(args.mix, args.load, args.seeds, args.policy)]
    results = []
    with ProcessPoolExecutor(args.workers) as workers:
        found = workers.map(_work, [experiment] * len(jobs), jobs, [args.lasting] * len(jobs))
        for done, result in enumerate(found, start=1):
            results.append(result)
            print(f"{done}/{len(jobs)}", end="\r", file=sys.stderr)
    document = {
        "gpus": experiment.gpus, "lifetimes": args.lasting, "warm_up": experiment.warm,
        "base": experiment.base, "results": results,
        "summary": summary(results, experiment.base),
    }  # fmt: skip
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("\n".join(report(document["summary"])))
    return 0


def measured(experiment: Experiment, job: Job, lasting: float | None = None) -> dict[str, Any]:
    """The figures of one run."""
    board = _board(experiment.board)
    units = experiment.gpus * board.whole
    came = arrivals(
        board.shares(job.mix), board.sizes, units, job.load, job.seed,
        warm=experiment.warm, lasting=lasting or experiment.lasting,
    )  # fmt: skip
    run = simulate(_pool(experiment, board, job), came, board, units)
    return {
        "mix": job.mix, "load": job.load, "seed": job.seed, "policy": job.policy,
        **figures(run, board),
    }  # fmt: skip


def figures(run: Run, board: Board) -> dict[str, Any]:
    """Percentages of what was offered; ``moves`` per VM accepted."""
    offered, accepted = np.array(run.offered), np.array(run.accepted)
    total = max(1, int(accepted.sum()))
    slow = run.decision_us
    return {
        "count_pct": round(100 * float(accepted.sum() / offered.sum()), 4),
        "units_pct": round(100 * float(accepted @ board.sizes / (offered @ board.sizes)), 4),
        "by_profile_pct": {
            name: round(100 * float(a / o), 2) if o else None
            for name, a, o in zip(board.profiles, accepted, offered, strict=True)
        },
        "held_pct": round(100 * run.held_share, 3),
        "active_gpus": run.active,
        "moves": round(run.moves / total, 5),
        "moved_share": round(run.movers / total, 5),
        "decision_us": [round(float(np.percentile(slow, q)), 1) for q in (50, 99)],
    }


def summary(results: Sequence[Mapping[str, Any]], base: str) -> list[dict[str, Any]]:
    """Over seeds, with the difference to the base and to free migration on the same seeds."""
    by = {(r["mix"], r["load"], r["policy"], r["seed"]): r for r in results}
    found = []
    for mix, load, policy in dict.fromkeys((r["mix"], r["load"], r["policy"]) for r in results):
        seeds = [seed for *key, seed in by if key == [mix, load, policy]]
        mine = [by[mix, load, policy, seed] for seed in seeds]
        row = {"mix": mix, "load": load, "policy": policy, "seeds": seeds}
        for figure in ("count_pct", "units_pct", "held_pct", "moves", "moved_share"):
            values = np.array([each[figure] for each in mine])
            row[figure] = round(float(values.mean()), 4)
            row[f"{figure}_stdev"] = round(float(values.std(ddof=len(values) > 1)), 4)
        for other in (base, FREE):
            pairs = [
                (a, by.get((mix, load, other, seed))) for a, seed in zip(mine, seeds, strict=True)
            ]
            apart = [a["units_pct"] - b["units_pct"] for a, b in pairs if b]
            if apart:
                row[f"to_{other}"] = round(float(np.mean(apart)), 4)
                row[f"better_than_{other}"] = sum(each > 0 for each in apart)
        found.append(row)
    return found


def report(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table in Markdown."""
    head = ("mix", "load", "policy", "accepted, count %", "accepted, GPU %", "to base", "to free")
    head += ("moves per VM", "moved VMs")
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        base = next(
            (f"{v:+.2f}" for k, v in row.items() if k.startswith("to_") and FREE not in k), ""
        )
        free = f"{row[f'to_{FREE}']:+.2f}" if f"to_{FREE}" in row else ""
        yield (
            f"| {row['mix']} | {row['load']} | {row['policy']} | {row['count_pct']:.2f} "
            f"| {row['units_pct']:.2f} ± {row['units_pct_stdev']:.2f} | {base} | {free} "
            f"| {row['moves']:.3f} | {100 * row['moved_share']:.1f} % |"
        )


def _work(experiment: Experiment, job: Job, lasting: float) -> dict[str, Any]:
    return measured(experiment, job, lasting)


def _pool(experiment: Experiment, board: Board, job: Job) -> Pool:
    if job.policy == FREE:
        return Free(experiment.bound(board.space, experiment.gpus))
    name, budget = experiment.policies[job.policy]
    shares = tuple(board.shares(job.mix).tolist())
    ranking = noted(name, experiment.board, shares, experiment.gpus)
    kind = RoundRobin if job.policy == ROUND_ROBIN else Ranked
    return kind(board.space, ranking, experiment.gpus, budget)


@cache
def _board(kind: Callable[[], Board]) -> Board:
    return kind()


def _parser(experiment: Experiment, about: str | None) -> argparse.ArgumentParser:
    board = _board(experiment.board)
    names = [*experiment.policies, FREE]
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mix", nargs="+", choices=list(board.mixes), default=experiment.mixes)
    parser.add_argument("--load", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=_seeds, default=_seeds("42-46"))
    parser.add_argument("--policy", nargs="+", choices=names, default=names)
    parser.add_argument("--lasting", type=float, default=experiment.lasting, help="lifetimes")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    return parser


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))
