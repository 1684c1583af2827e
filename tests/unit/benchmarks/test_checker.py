"""The checker finds every broken constraint, and the figures are those of the replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.placement.checker import InvalidPlacement, replay
from benchmarks.placement.metrics import figures, fragmentation
from benchmarks.placement.policy import Place
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Host, Shape

HOST = Host("h", 4000, 1000, 2, "T4")


def arrivals(*shapes: Shape, hosts: tuple[Host, ...] = (HOST,)) -> Arrivals:
    distinct = tuple(sorted(set(shapes)))
    kinds = np.array([distinct.index(shape) for shape in shapes])
    return Arrivals(42, hosts, distinct, kinds, np.arange(len(shapes)))


@pytest.mark.parametrize(
    ("shape", "gpus", "said"),
    [
        (Shape(5000, 1, 1, 500), (0,), "too little CPU or memory"),
        (Shape(1, 2000, 1, 500), (0,), "too little CPU or memory"),
        (Shape(1, 1, 1, 500, ("A10",)), (0,), "T4 is not of"),
        (Shape(1, 1, 1, 500), (2,), "has 2 GPUs"),
        (Shape(1, 1, 2, 1000), (1, 1), "2 GPUs asked"),
        (Shape(1, 1, 2, 1000), (0,), "2 GPUs asked"),
        (Shape(1, 1, 0, 0), (0,), "0 GPUs asked"),
    ],
)
def test_finds_what_breaks_a_constraint(shape: Shape, gpus: tuple[int, ...], said: str) -> None:
    with pytest.raises(InvalidPlacement, match=said):
        list(replay(arrivals(shape), {0: Place(0, gpus)}))


def test_finds_a_gpu_that_is_given_twice() -> None:
    share, whole = Shape(1, 1, 1, 600), Shape(1, 1, 1, 1000)
    taken = {0: Place(0, (0,)), 1: Place(0, (0,))}
    for second in (share, whole):
        with pytest.raises(InvalidPlacement, match="too little left"):
            list(replay(arrivals(share, second), taken))
    list(replay(arrivals(share, whole), {0: Place(0, (0,)), 1: Place(0, (1,))}))


def test_finds_what_is_given_back_twice() -> None:
    made = replace(arrivals(Shape(1, 1, 1, 600)), events=np.array([0, ~0, ~0]))
    with pytest.raises(InvalidPlacement, match="more was given back"):
        list(replay(made, {0: Place(0, (0,))}))


def test_figures_by_hand() -> None:
    share, whole = Shape(1, 1, 1, 500), Shape(1, 1, 1, 1000)
    made = arrivals(share, whole, whole, share)
    found = figures(made, {0: Place(0, (0,)), 1: Place(0, (1,)), 2: None, 3: Place(0, (0,))}, {})
    assert found.alloc_pct["120"] == 75.0
    assert found.alloc_pct["130"] == 100.0
    assert found.first_refusal_pct == 75.0
    assert found.refusals == {"cpu": 0, "share": 0, "1": 1, "2": 0, "4": 0, "8": 0}
    assert found.refusals_before_95 == 0


def test_mean_allocation_over_time() -> None:
    share = Shape(1, 1, 1, 1000)
    made = replace(
        arrivals(share, share, share),
        events=np.array([0, 1, ~0, 2]),
        times=np.array([0.0, 1.0, 3.0, 4.0]),
        first=1,
    )
    found = figures(made, {0: Place(0, (0,)), 1: Place(0, (1,)), 2: Place(0, (0,))}, {})
    assert found.alloc_pct == {"mean": pytest.approx(100 * (2 * 1.0 + 1 * 0.5) / 3, abs=1e-3)}


def test_fragmentation_is_what_the_mix_cannot_use() -> None:
    (moment,) = replay(arrivals(Shape(3500, 1, 1, 600)), {0: Place(0, (0,))})
    half, whole, wide = Shape(0, 0, 1, 500), Shape(0, 0, 1, 1000), Shape(0, 0, 2, 1000)
    hungry, cpu = Shape(4000, 0, 1, 100), Shape(1, 0, 0, 0)
    assert fragmentation(moment.ledgers, {half: 1.0}) == 400
    assert fragmentation(moment.ledgers, {whole: 1.0}) == 400
    assert fragmentation(moment.ledgers, {wide: 1.0}) == 1400
    assert fragmentation(moment.ledgers, {hungry: 0.5, half: 0.5}) == 0.5 * 1400 + 0.5 * 400
    assert fragmentation(moment.ledgers, {cpu: 1.0}) == 1400
