"""A race: processes of clients over one ledger, and what came of it."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.race import ground
from tests.race.clients import WON, Seen, contend

Report = dict[str, Any]

# What a loser may be told: that another was faster, or that there is no room.
TOLD = frozenset({"conflict.generation", "placement.none"})


def race(url: str, *, processes: int, threads: int, rounds: int) -> Report:
    """So many rounds; raises what a client's process raised."""
    ground.prepare(url)
    context = multiprocessing.get_context("spawn")
    began = time.monotonic()
    with context.Manager() as manager, context.Pool(processes) as pool:
        gate = manager.Barrier(processes)
        jobs = [(url, number, processes, threads, rounds, gate) for number in range(processes)]
        seen = pool.starmap(contend, jobs)
    return {
        "clients": processes * threads,
        "rounds": rounds,
        "seconds": round(time.monotonic() - began, 1),
        **summed(seen),
    }


def summed(seen: Sequence[Seen]) -> Report:
    """Every process's part, put together round by round."""
    winners = [sum(each) for each in zip(*(one.wins for one in seen), strict=True)]
    answers = sum((one.answers for one in seen), Counter[str]())
    replanned = sum((one.replanned for one in seen), Counter[str]())
    seconds = sorted(second for one in seen for second in one.seconds)
    return {
        "rounds_run": len(winners),
        "winners_per_round": {"min": min(winners), "max": max(winners)},
        "double_allocations": sum(one.doubles for one in seen),
        "attempts": len(seconds),
        "losers": {kind: count for kind, count in answers.most_common() if kind != WON},
        "losers_planned_anew": dict(replanned),
        "attempt_ms": {
            "p50": _ms(seconds, 0.50),
            "p99": _ms(seconds, 0.99),
            "max": _ms(seconds, 1.0),
        },
    }


def sound(report: Report) -> bool:
    """One winner in every round, nothing twice, and every loser told."""
    return (
        report["winners_per_round"] == {"min": 1, "max": 1}
        and report["double_allocations"] == 0
        and report["rounds_run"] == report["rounds"]
        and set(report["losers_planned_anew"]) <= {"placement.none"}
        and all(kind.partition(":")[0] in TOLD for kind in report["losers"])
    )


def _ms(sorted_seconds: Sequence[float], share: float) -> float:
    last = len(sorted_seconds) - 1
    return round(1000 * sorted_seconds[round(last * share)], 2)
