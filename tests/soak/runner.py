"""Seeds, one after the other, until enough operations ran."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.soak.machine import TALLY, Soak

EXAMPLES, STEPS = 8, 100


@dataclass
class Found:
    """What one seed came to."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    failure: str = ""


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
            verbosity=Verbosity.normal if shrink else Verbosity.quiet,
        ),
    )


def explore(number: int) -> Found:
    """One seed in this process, counted."""
    TALLY.clear()
    failure = ""
    try:
        run(number)
    except BaseException as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        failure = "".join(traceback.format_exception(error, limit=-4)) + notes
    return Found(number, Counter(TALLY), failure)


def soak(pool: Pool, first: int, operations: int, out: Path) -> int:
    """Seeds from ``first`` on until so many operations ran; how many failed."""
    total: Counter[str] = Counter()
    failures: dict[int, str] = {}
    began = time.monotonic()
    every = pool.imap_unordered(explore, range(first, first + operations))
    for seeds, found in enumerate(every, 1):
        total += found.counts
        if found.failure:
            failures[found.seed] = found.failure
        seconds = time.monotonic() - began
        report = {
            "operations": total["operations"],
            "operations_per_s": round(total["operations"] / seconds, 1),
            "seconds": round(seconds),
            "first_seed": first,
            "seeds": seeds,
            "failing_seeds": sorted(failures),
            "failures": {str(each): text for each, text in sorted(failures.items())},
            "counts": dict(total.most_common()),
        }
        out.write_text(json.dumps(report, indent=1) + "\n")
        print(f"{total['operations']} operations, {len(failures)} failing seeds", flush=True)
        if total["operations"] >= operations:
            break
    return len(failures)
