"""Bounds by hand, and no policy exceeds them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.placement.baselines import baseline
from benchmarks.placement.bounds import bound
from benchmarks.placement.metrics import figures
from benchmarks.placement.patterns import paying, single
from benchmarks.placement.run import decide
from benchmarks.placement.sequences import inflation
from benchmarks.placement.traces import Host, Shape
from tests.unit.benchmarks import fleets
from tests.unit.benchmarks.test_checker import arrivals


def test_shares_that_do_not_fit_together() -> None:
    hosts = (Host("h", 9000, 9000, 2, "T4"),)
    found = bound(arrivals(*[Shape(1, 1, 1, 600)] * 5, hosts=hosts))
    assert found.free["130"] == pytest.approx(60)
    assert (found.fits_to_pct, found.prefix_pct) == (60, pytest.approx(60))


def test_cpu_models_and_wide_tasks_limit() -> None:
    few_cpus = (Host("h", 1000, 9000, 4, "T4"),)
    tasks = [Shape(500, 1, 1, 1000)] * 6
    assert bound(arrivals(*tasks, hosts=few_cpus)).free["130"] == pytest.approx(50)
    other = [Shape(1, 1, 1, 1000, ("A10",))] * 6
    assert bound(arrivals(*other, hosts=few_cpus)).free["130"] == 0
    wide = [Shape(1, 1, 3, 1000)] * 2
    assert bound(arrivals(*wide, hosts=few_cpus)).free["130"] == pytest.approx(75)


def test_what_was_accepted_costs_what_comes_later() -> None:
    hosts = (Host("h", 9000, 9000, 1, "T4"),)
    found = bound(arrivals(Shape(1, 1, 1, 600), Shape(1, 1, 1, 1000), hosts=hosts))
    assert found.free["130"] == pytest.approx(100)
    assert (found.fits_to_pct, found.prefix_pct) == (60, pytest.approx(60))


@pytest.mark.parametrize("last", [950, 340])
def test_requests_without_a_gpu_that_fit_but_for_a_hair_bound_nothing(last: int) -> None:
    """They weigh next to nothing, and what the solver takes for all of them may not be accepted."""
    hosts = (Host("h", 1000, 9000, 1, "T4"),)
    gpu, small = Shape(1, 1, 1, 500), Shape(333, 1, 0, 0)
    found = bound(arrivals(gpu, small, small, Shape(last, 1, 0, 0), gpu, hosts=hosts))
    assert found.prefix_pct == pytest.approx(100)


@pytest.mark.parametrize("seed", range(3))
def test_no_policy_exceeds_the_free_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts, tasks = fleets.hosts(random), fleets.tasks(random)
    made = inflation(hosts, tasks, seed)
    limit = bound(made)
    for name in ("fgd", "bestfit"):
        found = figures(made, decide(baseline(name, made, tasks), made)[0], {})
        assert found.alloc_pct["130"] <= limit.free["130"] + 1e-6
        assert limit.prefix_pct <= limit.free["130"] + 1e-6


def test_the_paying_pattern_is_the_best_of_all() -> None:
    random = np.random.default_rng(5)
    sizes = np.array([150, 250, 400, 810])
    for _ in range(20):
        worth = random.random(4)
        counts = product(*(range(1000 // size + 1) for size in sizes))
        best = max(worth @ c for c in counts if sizes @ c <= 1000)
        found = paying(sizes, worth, 1000, best - 1e-9)
        assert found is not None
        assert sizes @ found <= 1000
        assert worth @ found == pytest.approx(best)
        assert paying(sizes, worth, 1000, best + 1e-9) is None
    assert [counts.tolist() for counts in single(np.array([300, 1000]), 1000)] == [[3, 0], [0, 1]]
