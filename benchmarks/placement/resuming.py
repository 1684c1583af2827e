"""What an earlier run has found already: hours need not be spent in one piece."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.policies import knows_history
from benchmarks.placement.run import BOUND, Job
from benchmarks.placement.traces import TraceError

Rows = Sequence[Mapping[str, Any]]
Bounds = Mapping[str, Mapping[str, Any]]
Key = tuple[Any, ...]


def kept(
    file: Path, wanted: Sequence[Job]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Results and bounds of a file that are among those wanted; nothing where there is no file.

    Raises TraceError where the file holds something else.
    """
    if not file.is_file() or not file.stat().st_size:
        return [], {}
    try:
        return _kept(json.loads(file.read_text(encoding="utf-8")), wanted)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TraceError(f"{file} holds no results to go on with; leave --resume out") from None


def _kept(
    found: Mapping[str, Any], wanted: Sequence[Job]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    keys = {_key(job) for job in wanted}
    bounded = {(job.name, str(job.seed)) for job in wanted if job.policy == BOUND}
    results = [row for row in found["results"] if _of(row) in keys]
    bounds = {
        name: {seed: each for seed, each in rows.items() if (name, seed) in bounded}
        for name, rows in found["bound"].items()
    }
    return results, {name: rows for name, rows in bounds.items() if rows}


def has(job: Job, results: Rows, bounds: Bounds) -> bool:
    """Whether a job's result is there."""
    if job.policy == BOUND:
        return str(job.seed) in bounds.get(job.name, {})
    return _key(job) in map(_of, results)


def _key(job: Job) -> Key:
    history = job.history if knows_history(job.policy) else None
    return job.name, str(job.variant), job.policy, history, job.seed


def _of(row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in ("workload", "variant", "policy", "history", "seed"))
