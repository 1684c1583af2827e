"""A lane: one process that does jobs, one scenario over one store each, and tells what it found."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import pgserver
from tests.faults import memory
from tests.faults.injecting import Injector
from tests.faults.points import Pair, Point
from tests.faults.processes import Tell
from tests.faults.scenarios import ALL
from tests.faults.stores import PgStores, SqliteStores, Stores
from tests.faults.warm import warm


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario over a store: a kill at each of its points, or second kills after some of them.

    ``dry``: nobody is killed. ``sample``: so many points only (0: all); ``about``: those with these
    words; ``points``: these. ``end``: only this one after a kill. ``pairs``: second kills instead.
    """

    scenario: str
    store: str
    dry: bool = False
    sample: int = 0
    about: str = ""
    points: tuple[int, ...] = ()
    end: str = ""
    pairs: tuple[Pair, ...] = ()

    @property
    def whole(self) -> bool:
        """Every point once?"""
        return not (self.dry or self.sample or self.about or self.points or self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What all lanes share. ``until`` is on the monotonic clock."""

    seed: int
    until: float
    folder: Path


def work(run: Run, jobs: Iterable[Job], tell: Tell) -> None:
    """Do jobs as they come; one answer each."""
    with tempfile.TemporaryDirectory(dir=run.folder) as name, ExitStack() as opened:
        kinds: dict[str, Stores] = {}
        for job in jobs:
            if job.store not in kinds:
                kinds[job.store] = _stores(job.store, Path(name), opened)
                warm(kinds[job.store].fresh())
            tell(_done(run, job, kinds[job.store], Path(name)))


def _done(run: Run, job: Job, stores: Stores, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    scenario = ALL[job.scenario]
    injector = Injector(scenario, stores, folder, run.seed, replay=job.whole)
    try:
        _inject(run, job, injector)
    finally:
        injector.close()
    return {
        "figures": injector.figures.plain,
        "points": [point.plain for point in injector.points],
        "pairs": [pair.plain for pair in injector.pairs],
        "seconds": time.monotonic() - began,
    }


def _inject(run: Run, job: Job, injector: Injector) -> None:
    for pair in job.pairs:
        injector.twice(pair, run.until)
    if not (job.pairs or job.dry):
        injector.once(_chosen(run, job, injector.points), run.until, job.end)


def _chosen(run: Run, job: Job, points: Sequence[Point]) -> Sequence[int]:
    every = range(1, len(points) + 1)
    if job.about:
        return [n for n in every if job.about in str(points[n - 1])]
    if job.sample:
        chance = random.Random(f"{run.seed} {job.scenario}")
        return sorted(chance.sample(every, min(job.sample, len(every))))
    return job.points or every


def _stores(kind: str, folder: Path, opened: ExitStack) -> Stores:
    if kind == "sqlite":
        return SqliteStores(folder / "ledgers")
    return PgStores(opened.enter_context(pgserver.running(memory.folder())))
