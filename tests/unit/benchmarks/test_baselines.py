"""The baselines decide as their definitions say, by brute force on small fleets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.placement.baselines import RULES, baseline
from benchmarks.placement.baselines.fgd import popular
from benchmarks.placement.checker import Ledger
from benchmarks.placement.metrics import fragmentation
from benchmarks.placement.policy import Place
from benchmarks.placement.run import decide
from benchmarks.placement.sequences import Arrivals, inflation, turnover
from benchmarks.placement.traces import MILLI, Shape, Task
from tests.unit.benchmarks import fleets


def world(seed: int) -> tuple[Arrivals, tuple[Task, ...]]:
    random = np.random.default_rng(seed)
    hosts, tasks = fleets.hosts(random), fleets.tasks(random)
    return inflation(hosts, tasks, seed), tasks


@pytest.mark.parametrize("name", RULES)
def test_places_what_fits_and_refuses_nothing_else(name: str) -> None:
    arrivals, tasks = world(7)
    places, _ = decide(baseline(name, arrivals, tasks), arrivals)
    assert fleets.refusals(arrivals, places)


@pytest.mark.parametrize("name", RULES)
def test_what_is_given_back_can_be_taken_again(name: str) -> None:
    random = np.random.default_rng(3)
    hosts, tasks = fleets.hosts(random), fleets.tasks(random)
    arrivals = turnover(hosts, tasks, 3, 1.2)
    places, _ = decide(baseline(name, arrivals, tasks), arrivals)
    assert fleets.refusals(arrivals, places)


@pytest.mark.parametrize("seed", range(4))
def test_fgd_takes_the_least_growth_of_fragmentation(seed: int) -> None:
    arrivals, tasks = world(seed)
    mix = popular([task.shape for task in tasks])
    policy = baseline("fgd", arrivals, tasks)
    ledgers = [Ledger(h, h.cpu_milli, h.memory_mib, [MILLI] * h.gpus) for h in arrivals.hosts]
    for request, kind in enumerate(arrivals.kinds.tolist()):
        shape = arrivals.shapes[kind]
        expected = best(ledgers, shape, mix)
        assert policy.place(request, kind) == expected
        if expected is not None:
            ledgers[expected.host].hold(shape, expected.gpus)


def best(ledgers: list[Ledger], shape: Shape, mix: dict[Shape, float]) -> Place | None:
    """The first of the highest integer scores; the first GPU of those of one host."""
    scored = [
        (score(ledger, shape, gpus, mix), -host, -number, gpus)
        for host, ledger in enumerate(ledgers)
        if fleets.takes(ledger, shape)
        for number, gpus in enumerate(options(ledger, shape))
    ]
    if not scored:
        return None
    _, host, _, gpus = max(scored)
    return Place(-host, gpus)


def options(ledger: Ledger, shape: Shape) -> list[tuple[int, ...]]:
    roomy = [number for number, free in enumerate(ledger.gpus) if free >= shape.gpu_milli]
    return [(number,) for number in roomy] if shape.share else [tuple(roomy[: shape.gpus])]


def score(ledger: Ledger, shape: Shape, gpus: tuple[int, ...], mix: dict[Shape, float]) -> int:
    before = fragmentation([ledger], mix)
    after = Ledger(ledger.host, ledger.cpu_milli, ledger.memory_mib, list(ledger.gpus))
    after.hold(shape, gpus)
    # Half a thousandth of a point hides sums taken in another order.
    rated = 100 / (1 + math.exp(-(before - fragmentation([after], mix)) / 1000))
    return int(rated + 1e-9)


def test_the_mix_covers_95_percent_of_the_tasks() -> None:
    common, rare = Shape(1000, 1, 1, 500), Shape(2000, 1, 1, 250)
    mix = popular([common] * 48 + [Shape(1000, 2, 1, 500)] * 48 + [rare] * 4)
    assert mix == {Shape(1000, 0, 1, 500): 1.0}


def test_random_ties_differ_from_fixed_ones() -> None:
    arrivals, tasks = world(11)
    fixed, _ = decide(baseline("fgd", arrivals, tasks), arrivals)
    drawn, _ = decide(baseline("fgd-random-ties", arrivals, tasks), arrivals)
    again, _ = decide(baseline("fgd-random-ties", arrivals, tasks), arrivals)
    assert fixed != drawn
    assert drawn == again
