"""Runs policies over sequences, each run checked; two worker processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placement.baselines.fgd import popular
from benchmarks.placement.bounds import bound
from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.metrics import figures
from benchmarks.placement.policies import OURS, make
from benchmarks.placement.policy import Place, Policy
from benchmarks.placement.sequences import Arrivals, history, inflation, turnover, windowed
from benchmarks.placement.traces import Shape, Task, TraceError, read_hosts, read_tasks

WORKERS = 2
BOUND = "bound"
"""Stands for a policy where the bounds are wanted."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How the tasks arrive: sorted in windows of so many, or with departures at a load."""

    window: int = 0
    load: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Variant:
        """``plain``, ``windows:200`` or ``departures:0.95``; raises ValueError."""
        name, _, value = text.partition(":")
        if name == "windows" and value.isdigit() and int(value) > 0:
            return cls(window=int(value))
        if name == "departures" and float(value or 1) > 0:
            return cls(load=float(value or 1))
        if text != "plain":
            raise ValueError(f"{text!r} is not plain, windows:SIZE or departures[:LOAD]")
        return cls()


@dataclass(frozen=True, slots=True)
class Job:
    """One policy (or ``bound``) over one sequence."""

    name: str
    workload: Path
    hosts: Path
    seed: int
    policy: str
    history: float
    variant: Variant = Variant()


def run_all(jobs: Sequence[Job], workers: int = WORKERS) -> Iterator[tuple[Job, dict[str, Any]]]:
    """The result of each job as it ends; raises what a job raised."""
    slow_first = sorted(jobs, key=lambda job: not job.policy.startswith(OURS))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = {pool.submit(run, job): job for job in slow_first}
        try:
            for ended in as_completed(running):
                yield running[ended], ended.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run(job: Job) -> dict[str, Any]:
    """One result, as the JSON has it."""
    tasks, mix = _tasks(job.workload)
    arrivals = _arrivals(job, tasks)
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
    places: dict[int, Place | None] = {}
    took = []
    kinds = arrivals.kinds.tolist()
    for event in arrivals.events.tolist():
        if event >= 0:
            start = time.perf_counter_ns()
            places[event] = policy.place(event, kinds[event])
            took.append(time.perf_counter_ns() - start)
        elif places[~event] is not None:
            policy.release(~event)
    return places, took


def _arrivals(job: Job, tasks: Sequence[Task]) -> Arrivals:
    hosts = _hosts(job.hosts)
    if job.variant.load:
        return turnover(hosts, tasks, job.seed, job.variant.load)
    arrivals = inflation(hosts, tasks, job.seed)
    return windowed(arrivals, job.variant.window) if job.variant.window else arrivals


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
