"""Arrival sequences: what is in them, in which order, and that nothing but the seed decides."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.placement.sequences import (
    Arrivals,
    capacity,
    history,
    in_tie_order,
    inflation,
    turnover,
    windowed,
)
from benchmarks.placement.traces import Host, Shape, Task, TraceError
from tests.unit.benchmarks import fleets

RANDOM = np.random.default_rng(1)
HOSTS = fleets.hosts(RANDOM, 30)
TASKS = fleets.tasks(RANDOM)


def same(a: Arrivals, b: Arrivals) -> bool:
    return a.hosts == b.hosts and a.kinds.tolist() == b.kinds.tolist()


def test_all_tasks_then_clones_to_just_over_130_percent() -> None:
    made = inflation(HOSTS, TASKS, 42)
    shapes = [made.shapes[kind] for kind in made.kinds]
    assert Counter(shapes[: len(TASKS)]) == Counter(task.shape for task in TASKS)
    arrived = np.cumsum(made.demands)
    assert arrived[-2] <= 1.3 * made.capacity < arrived[-1]


def test_a_larger_file_is_cut() -> None:
    made = inflation(HOSTS[:2], TASKS, 42)
    assert len(made.kinds) < len(TASKS)
    assert int(made.demands[:-1].sum()) <= 1.3 * made.capacity < int(made.demands.sum())


def test_the_seed_alone_decides() -> None:
    assert same(inflation(HOSTS, TASKS, 42), inflation(HOSTS, TASKS, 42))
    assert not same(inflation(HOSTS, TASKS, 42), inflation(HOSTS, TASKS, 43))
    assert sorted(in_tie_order(HOSTS, 42), key=lambda h: h.name) == sorted(
        HOSTS, key=lambda h: h.name
    )


def test_windows_are_sorted_and_keep_their_requests() -> None:
    plain = inflation(HOSTS, TASKS, 42)
    made = windowed(plain, 10)
    for begin in range(0, len(plain.kinds), 10):
        window = made.kinds[begin : begin + 10]
        assert Counter(window.tolist()) == Counter(plain.kinds[begin : begin + 10].tolist())
        demands = [made.shapes[kind].demand for kind in window]
        assert demands == sorted(demands, reverse=True)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.05, 2), (0.2, 8), (1.0, 40)])
def test_history_is_a_share_of_the_tasks(share: float, count: int) -> None:
    known = history(TASKS, share, 42)
    assert len(known) == count
    assert not Counter(known) - Counter(TASKS)
    assert known == history(TASKS, share, 42)


def test_departures_follow_arrivals_and_keep_the_load() -> None:
    hosts = [Host("h", 0, 0, 8, "T4")] * 50
    tasks = [Task(Shape(0, 0, 1, 500), 100.0 * (1 + n % 3)) for n in range(600)]
    made = turnover(hosts, tasks, 42, 0.8)
    assert made.times is not None
    assert np.all(np.diff(made.times) >= 0)
    living, live = set(), []
    for event in made.events.tolist():
        if event >= 0:
            living.add(event)
        else:
            living.remove(~event)
        live.append(500 * len(living))
    assert made.events[: made.first].tolist() == list(range(made.first))
    mean = np.average(live[made.first : -1], weights=np.diff(made.times)[made.first :])
    assert mean == pytest.approx(0.8 * capacity(hosts), rel=0.1)


def test_departures_need_lifetimes() -> None:
    with pytest.raises(TraceError, match="1 of 1 tasks have no lifetime"):
        turnover(HOSTS, [Task(Shape(0, 0, 1, 500))], 42)
