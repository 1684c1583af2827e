"""A lane: one process that takes scenarios from a queue, and tells what it found."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import pgserver
from tests.faults.injecting import Injector
from tests.faults.processes import Tell
from tests.faults.scenarios import ALL
from tests.faults.stores import PgStores, SqliteStores, Stores
from tests.faults.warm import warm

# So many kill points of a scenario get their second kills in one go; the queue goes round.
SLICE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario over a store. ``turn`` None: each point once; else that slice of second kills.

    ``dry``: nobody is killed. ``sample``: so many points only (0: all); ``about``: those with these
    words. ``at``, ``end`` and ``second`` single one out.
    """

    scenario: str
    store: str
    turn: int | None = None
    dry: bool = False
    sample: int = 0
    about: str = ""
    at: int = 0
    end: str = ""
    second: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What all lanes share. ``until`` is on the monotonic clock."""

    seed: int
    until: float
    folder: Path


class Queue:
    """Numbers, each taken by one process: a pipe filled beforehand."""

    _SIZE = 4

    def __init__(self, length: int) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        for number in range(length):
            os.write(self._write, number.to_bytes(self._SIZE, "big"))

    def take(self) -> int | None:
        """The next number; None when there is none left."""
        try:
            return int.from_bytes(os.read(self._read, self._SIZE), "big")
        except BlockingIOError:
            return None


def work(run: Run, jobs: Sequence[Job], queue: Queue, tell: Tell) -> None:
    """Take jobs until none is left or time is up."""
    with tempfile.TemporaryDirectory(dir=run.folder) as name, _stores(jobs, Path(name)) as stores:
        for each in stores.values():
            warm(each.fresh())
        while (number := queue.take()) is not None:
            if time.monotonic() < run.until:
                tell({"job": number, **_done(run, jobs[number], stores, Path(name))})


def _done(run: Run, job: Job, stores: dict[str, Stores], folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    whole = job.turn is None and not (job.dry or job.sample or job.at or job.about)
    scenario, store = ALL[job.scenario], stores[job.store]
    injector = Injector(scenario, store, folder, run.seed, replay=whole)
    try:
        _inject(run, job, injector)
    finally:
        injector.close()
    points = [point.plain for point in injector.points]
    return {
        "figures": injector.figures.plain,
        "points": points,
        "seconds": time.monotonic() - began,
    }


def _inject(run: Run, job: Job, injector: Injector) -> None:
    every = range(1, len(injector.points) + 1)
    if job.dry:
        return
    if job.second:
        injector.twice(job.at, job.end, run.until, job.second)
    elif job.at:
        injector.once([job.at], run.until, job.end)
    elif job.about:
        about = [n for n, each in enumerate(injector.points, 1) if job.about in str(each)]
        injector.once(about, run.until, job.end)
    elif job.turn is not None:
        _slice(run, job, injector)
    elif job.sample:
        chance = random.Random(f"{run.seed} {job.scenario}")
        injector.once(sorted(chance.sample(every, min(job.sample, len(every)))), run.until)
    else:
        injector.once(every, run.until)


def _slice(run: Run, job: Job, injector: Injector) -> None:
    """Second kills after some of the points, in an order that the seed tells."""
    assert job.turn is not None
    every = injector.first_kills
    random.Random(f"{run.seed} {job.scenario} {job.store}").shuffle(every)
    ends = ALL[job.scenario].ends
    for number in range(job.turn * SLICE, (job.turn + 1) * SLICE):
        if number < len(every) and time.monotonic() < run.until:
            injector.twice(every[number], ends[number % len(ends)], run.until)


@contextmanager
def _stores(jobs: Sequence[Job], folder: Path) -> Iterator[dict[str, Stores]]:
    found: dict[str, Stores] = {"sqlite": SqliteStores(folder / "ledgers")}
    if all(job.store == "sqlite" for job in jobs):
        yield found
        return
    with pgserver.running() as server:
        yield {**found, "postgresql": PgStores(server)}
