"""Seeds, one after the other, until enough operations ran or the time is over."""

from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.pool import AsyncResult, Pool

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import sqltexts
from tests.soak.frozen import frozen_test
from tests.soak.machine import Soak
from tests.soak.tally import TALLY, Key

# The first example of every seed is the same simple one.
EXAMPLES, STEPS = 25, 150


@dataclass
class Found:
    """What one seed came to: ``failure`` and its ``test`` are empty where everything held."""

    seed: int
    counts: Counter[Key] = field(default_factory=Counter)
    cpu_s: float = 0.0
    failure: str = ""
    test: str = ""


def run(number: int, *, examples: int = EXAMPLES, steps: int = STEPS, shrink: bool = False) -> None:
    """Every life of one seed; raises what does not hold."""
    phases = (Phase.generate, *((Phase.shrink,) if shrink else ()))
    run_state_machine_as_test(
        seed(number)(Soak),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.normal if shrink else Verbosity.quiet,  # it tells the steps
        ),
    )


def prepare() -> None:
    """For a process that does nothing else: what is loaded now is never garbage."""
    sqltexts.share()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def explore(number: int) -> Found:
    """One seed in this process, counted."""
    TALLY.clear()
    began = time.process_time()
    failure = _failure(number, shrink=False)[0]
    return Found(number, Counter(TALLY), time.process_time() - began, failure)


def shorten(number: int) -> Found:
    """A failing seed again, as short as it gets within minutes, as a test."""
    failure, notes = _failure(number, shrink=True)
    return Found(number, failure=failure, test=frozen_test(number, notes))


def _failure(number: int, *, shrink: bool) -> tuple[str, str]:
    try:
        run(number, shrink=shrink)
    except BaseException as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return "".join(traceback.format_exception(error, limit=-4)), notes
    return "", ""


def explored(pool: Pool, processes: int, first: int, until: float) -> Iterator[Found]:
    """Seed after seed on every process, as they end; nothing more after ``until`` (monotonic)."""
    numbers = count(first)
    running: list[AsyncResult[Found]] = []
    while time.monotonic() < until:
        while len(running) < processes:
            running.append(pool.apply_async(explore, (next(numbers),)))
        running[0].wait(0.2)
        for each in [each for each in running if each.ready()]:
            running.remove(each)
            yield each.get()
