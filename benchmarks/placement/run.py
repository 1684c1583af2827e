"""Runs policies over sequences, each run checked; two worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placement.baselines.fgd import popular
from benchmarks.placement.bounds import bound
from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.metrics import figures
from benchmarks.placement.policies import OURS, knows_history, make
from benchmarks.placement.policy import Place, Policy, TakesOrders
from benchmarks.placement.sequences import Arrivals, history
from benchmarks.placement.summary import AGAINST
from benchmarks.placement.traces import Shape, Task, TraceError, read_hosts, read_tasks
from benchmarks.placement.variant import PLAIN, Variant
from benchmarks.placement.workers import processes

WORKERS = 2
BOUND = "bound"
"""Stands for a policy where the bounds are wanted."""


@dataclass(frozen=True, slots=True)
class Job:
    """One policy (or ``bound``) over one sequence; ``history`` is the share of it that is known."""

    name: str
    workload: Path
    hosts: Path
    seed: int
    policy: str
    history: float
    variant: Variant = PLAIN


def run_all(jobs: Sequence[Job], workers: int = WORKERS) -> Iterator[tuple[Job, dict[str, Any]]]:
    """The result of each job as it ends; raises what a job raised.

    Ours, what it is measured against and the bounds come first: a run that ends early has those.
    """
    in_turn = sorted(jobs, key=_turn)
    with processes(workers) as pool:
        running = {pool.submit(run, job): job for job in in_turn}
        try:
            for ended in as_completed(running):
                yield running[ended], ended.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _turn(job: Job) -> int:
    if job.policy.startswith(OURS):
        return 0
    return {AGAINST: 1, BOUND: 2}.get(job.policy, 3)


def run(job: Job) -> dict[str, Any]:
    """One result, as the JSON has it."""
    tasks, mix = _tasks(job.workload)
    arrivals = job.variant.arrivals(_hosts(job.hosts), tasks, job.seed)
    if job.policy == BOUND:
        return asdict(bound(arrivals))
    known = history(tasks, job.history, job.seed)
    start = time.process_time()
    policy = make(job.policy, arrivals, tasks, known)
    ready = time.process_time()
    places, took = decide(policy, arrivals)
    spent = time.process_time() - ready
    took_us = np.array(took) / 1000
    try:
        found = figures(arrivals, places, mix)
    except InvalidPlacement as error:
        raise InvalidPlacement(f"{job.policy}, {job.name}, seed {job.seed}: {error}") from None
    return {
        "policy": job.policy,
        "seed": job.seed,
        "workload": job.name,
        "variant": str(job.variant),
        "history": job.history if knows_history(job.policy) else None,
        **asdict(found),
        "decision_us": {
            "median": round(float(np.median(took_us)), 1),
            "p99": round(float(np.percentile(took_us, 99)), 1),
        },
        "cpu_s": {"prepare": round(ready - start, 2), "decide": round(spent, 2)},
        "decisions": len(took),
    }


def decide(policy: Policy, arrivals: Arrivals) -> tuple[dict[int, Place | None], list[int]]:
    """Where every request went, and the nanoseconds of each decision."""
    if arrivals.window and isinstance(policy, TakesOrders):
        return _by_window(policy, arrivals)
    places: dict[int, Place | None] = {}
    took = []
    kinds = arrivals.kinds.tolist()
    for event in arrivals.events.tolist():
        if event >= 0:
            start = time.perf_counter_ns()
            places[event] = policy.place(event, kinds[event])
            took.append(time.perf_counter_ns() - start)
            policy.rest()
        elif places[~event] is not None:
            policy.release(~event)
    return places, took


def _by_window(
    policy: TakesOrders, arrivals: Arrivals
) -> tuple[dict[int, Place | None], list[int]]:
    """The same, a window at once; each request of it takes as long as another."""
    places: dict[int, Place | None] = {}
    took = []
    for first in range(0, len(arrivals.kinds), arrivals.window):
        kinds = arrivals.kinds[first : first + arrivals.window].tolist()
        requests = range(first, first + len(kinds))
        start = time.perf_counter_ns()
        found = policy.place_all(requests, kinds)
        took += [(time.perf_counter_ns() - start) // len(kinds)] * len(kinds)
        places |= zip(requests, found, strict=True)
        policy.rest()
    return places, took


@lru_cache(maxsize=4)
def _tasks(path: Path) -> tuple[tuple[Task, ...], dict[Shape, float]]:
    """The tasks, and the mix that fragmentation is measured against."""
    tasks = read_tasks(path)
    return tasks, popular([task.shape for task in tasks])


@lru_cache(maxsize=4)
def _hosts(path: Path) -> Any:
    hosts = read_hosts(path)
    if not any(host.gpus for host in hosts):
        raise TraceError(f"{path}: no host has a GPU")
    return hosts
