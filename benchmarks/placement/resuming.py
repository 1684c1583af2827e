"""What an earlier run has found already: hours need not be spent in one piece."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.policies import knows_history
from benchmarks.placement.run import BOUND, Job
from benchmarks.placement.traces import TraceError

Results = list[dict[str, Any]]
Bounds = dict[str, dict[str, Any]]
Key = tuple[Any, ...]


def found_in(file: Path) -> tuple[Results, Bounds]:
    """Results and bounds of a file; nothing where there is no file.

    Raises TraceError where it holds something else.
    """
    if not file.is_file() or not file.stat().st_size:
        return [], {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        results, bounds = list(document["results"]), dict(document["bound"])
        _keys(results, bounds)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TraceError(f"{file} holds no results to go on with; leave --resume out") from None
    return results, bounds


def missing(jobs: Sequence[Job], results: Results, bounds: Bounds) -> list[Job]:
    """Jobs without a result. Raises TraceError where results of other jobs would be lost."""
    there = _keys(results, bounds)
    others = there - {_key(job) for job in jobs}
    if others:
        raise TraceError(
            f"{len(others)} results in the file are not among those asked for and would be lost; "
            "ask for them too, or write to another file"
        )
    return [job for job in jobs if _key(job) not in there]


def _keys(results: Results, bounds: Bounds) -> set[Key]:
    names = ("workload", "variant", "policy", "history", "seed")
    of_bounds = {(name, BOUND, int(seed)) for name, rows in bounds.items() for seed in rows}
    return {tuple(row[name] for name in names) for row in results} | of_bounds


def _key(job: Job) -> Key:
    if job.policy == BOUND:
        return job.name, BOUND, job.seed
    history = job.history if knows_history(job.policy) else None
    return job.name, str(job.variant), job.policy, history, job.seed
