"""An order, and hosts with just as many GPUs as it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.placement.sequences import capacity, history
from benchmarks.placement.supply import fleet_of, vm_of
from benchmarks.placement.traces import MILLI, Host, Task, TraceError
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement import Mix

_STREAM = 4
KNOWN = 0.2
"""Share of the file's tasks that the mix is made of."""


@dataclass(frozen=True, slots=True)
class Order:
    """Tasks drawn without repetition, by chance, onto hosts drawn until the GPUs suffice."""

    tasks: tuple[Task, ...]
    hosts: tuple[Host, ...]
    fleet: Fleet
    requests: tuple[VmSpec, ...]
    mix: Mix

    @property
    def gpus(self) -> int:
        """GPUs of all hosts."""
        return capacity(self.hosts) // MILLI


def draw(hosts: Sequence[Host], tasks: Sequence[Task], size: int, seed: int) -> Order:
    """The order of that size and seed; raises TraceError where the file has fewer tasks."""
    if size > len(tasks):
        raise TraceError(f"an order of {size} tasks; the file has {len(tasks)}")
    random = np.random.default_rng((seed, _STREAM, size))
    drawn = tuple(tasks[int(n)] for n in random.choice(len(tasks), size, replace=False))
    with_gpus = [host for host in hosts if host.gpus]
    chosen = [with_gpus[int(n)] for n in random.permutation(len(with_gpus))]
    reached = np.cumsum([host.gpus for host in chosen]) * MILLI
    asked = sum(task.shape.demand for task in drawn)
    chosen = chosen[: int(np.searchsorted(reached, asked)) + 1]
    shapes = sorted({task.shape for task in tasks})
    return Order(
        tasks=drawn,
        hosts=tuple(chosen),
        fleet=fleet_of(chosen, shapes),
        requests=tuple(
            replace(vm_of(task.shape), name=f"vm-{number}") for number, task in enumerate(drawn)
        ),
        mix=Mix.of([vm_of(task.shape) for task in history(tasks, KNOWN, seed)]),
    )
