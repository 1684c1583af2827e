"""Small fleets and tasks for the harness's tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.placement.checker import Ledger, replay
from benchmarks.placement.policy import Place
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Host, Shape, Task

MODELS = ("A10", "T4")
SIZES = (100, 250, 300, 500, 810)


def hosts(random: np.random.Generator, count: int = 6) -> tuple[Host, ...]:
    return tuple(
        Host(
            name=f"h{number}",
            cpu_milli=int(random.choice([8000, 16000, 32000])),
            memory_mib=65536,
            gpus=int(random.choice([1, 2, 4])),
            model=str(random.choice(MODELS)),
        )
        for number in range(count)
    )


def shape(random: np.random.Generator) -> Shape:
    cpu, memory = int(random.choice([1000, 2000, 6000])), int(random.choice([2048, 16384]))
    kind = random.random()
    if kind < 0.2:
        return Shape(cpu, memory, 0, 0)
    models = (str(random.choice(MODELS)),) if random.random() < 0.2 else ()
    if kind < 0.7:
        return Shape(cpu, memory, 1, int(random.choice(SIZES)), models)
    return Shape(cpu, memory, int(random.choice([1, 2, 4])), 1000, models)


def tasks(random: np.random.Generator, count: int = 40) -> tuple[Task, ...]:
    return tuple(Task(shape(random), float(random.integers(1, 1000))) for _ in range(count))


def takes(ledger: Ledger, shape: Shape) -> bool:
    allowed = not shape.gpus or not shape.models or ledger.host.model in shape.models
    roomy = sum(free >= shape.gpu_milli for free in ledger.gpus) >= shape.gpus
    enough = ledger.cpu_milli >= shape.cpu_milli and ledger.memory_mib >= shape.memory_mib
    return allowed and roomy and enough


def refusals(arrivals: Arrivals, places: Mapping[int, Place | None]) -> int:
    """How many there were, after a check that nothing is invalid and none of them fitted."""
    count = 0
    for moment in replay(arrivals, places):
        if moment.event >= 0 and places[moment.event] is None:
            shape = arrivals.shapes[arrivals.kinds[moment.event]]
            assert not any(takes(ledger, shape) for ledger in moment.ledgers), shape
            count += 1
    return count
