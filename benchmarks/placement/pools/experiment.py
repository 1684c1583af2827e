"""All runs of an experiment: mixes × loads × seeds × policies, each checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.placement.pools.arrivals import arrivals
from benchmarks.placement.pools.boards import Board
from benchmarks.placement.pools.bound import Bound
from benchmarks.placement.pools.fluid import fluid
from benchmarks.placement.pools.simulate import Pool, Run, simulate
from benchmarks.placement.workers import processes

FREE = "free-migration"


class Maker(Protocol):
    """A policy as a value: what makes its pools."""

    def pool(self, board: Any, mix: str, gpus: int) -> Pool:
        """The empty pool of that many GPUs, for a mix of the board's."""
        ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """``policies`` by name; ``base`` is what others are held to, ``bound`` what all are.

    ``warm`` and ``lasting`` are mean lifetimes before and while things are measured. ``mixes`` and
    ``loads`` (of the GPUs) are those run unless others are named.
    """

    name: str
    board: Callable[[], Board]
    policies: Mapping[str, Maker]
    base: str
    gpus: int
    bound: Callable[..., Bound]
    warm: float
    lasting: float
    mixes: tuple[str, ...]
    loads: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    mix: str
    load: float
    seed: int
    policy: str


JOB = ("mix", "load", "seed", "policy")
"""What a result says of its job, in the order of the fields."""


def measure_all(
    experiment: Experiment, jobs: Sequence[Job], workers: int
) -> Iterator[dict[str, Any]]:
    """The figures of each job, in their order."""
    with processes(workers) as pool:
        yield from pool.map(measured, [experiment] * len(jobs), jobs)


def measured(experiment: Experiment, job: Job) -> dict[str, Any]:
    """The figures of one run; raises ``InvalidPlacement``."""
    board = experiment.board()
    units = experiment.gpus * board.whole
    came = arrivals(
        board.shares(job.mix), board.sizes, units, job.load, job.seed,
        warm=experiment.warm, lasting=experiment.lasting,
    )  # fmt: skip
    pool = experiment.policies[job.policy].pool(experiment.board, job.mix, experiment.gpus)
    run = simulate(pool, came, board, units)
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
        "decision_us": {
            "median": round(float(np.median(slow)), 1),
            "p99": round(float(np.percentile(slow, 99)), 1),
        },
    }


def bounds(experiment: Experiment, jobs: Sequence[Job]) -> dict[str, dict[str, float]]:
    """By mix and load: the share of what is offered that can be held in the long run, in %."""
    board = experiment.board()
    bound = experiment.bound(board, experiment.gpus)
    units = experiment.gpus * board.whole
    found: dict[str, dict[str, float]] = {}
    for mix, load in dict.fromkeys((job.mix, job.load) for job in jobs):
        shares = board.shares(mix)
        offered = load * units * shares / float(shares @ board.sizes)
        most = fluid(bound.sets, bound.bins, board.sizes, offered)
        found.setdefault(mix, {})[f"{load:g}"] = round(most, 4)
    return found
