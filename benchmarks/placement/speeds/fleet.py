"""openb's hosts tiled to any number, with NUMA nodes, and request types that use every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.placement.sequences import in_tie_order
from benchmarks.placement.speeds.load import Load
from benchmarks.placement.supply import fleet_of, vm_of
from benchmarks.placement.traces import Host, Shape, Task
from vgpumgr.model.supply import Fleet, HostSupply, NumaSupply
from vgpumgr.model.vm import Affinity, NumaPolicy, VmSpec

TYPES = 151
STRICT, APART = 8, 10
"""Every so many types must lie on one NUMA node (the rest would like to), and every so many keep
their VMs apart, host by host."""

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Types:
    """``shapes`` and the ``vms`` that ask for as much, by how often they come."""

    shapes: tuple[Shape, ...]
    vms: tuple[VmSpec, ...]
    shares: tuple[float, ...]

    def draw(self, count: int, seed: int) -> list[int]:
        """So many requests, as numbers of types."""
        random = np.random.default_rng(seed)
        drawn: list[int] = random.choice(len(self.vms), size=count, p=self.shares).tolist()
        return drawn


def types_of(tasks: Sequence[Task]) -> Types:
    """The commonest shapes of a trace, model sets and all, with wishes for NUMA and company."""
    common = Counter(task.shape for task in tasks).most_common(TYPES)
    total = sum(count for _, count in common)
    return Types(
        tuple(shape for shape, _ in common),
        tuple(_wishing(number, vm_of(shape)) for number, (shape, _) in enumerate(common)),
        tuple(count / total for _, count in common),
    )


def tiled(hosts: Sequence[Host], count: int) -> tuple[Host, ...]:
    """The hosts again and again, in an order of their own each time."""
    turns = range(-(-count // len(hosts)))
    return tuple(host for turn in turns for host in in_tie_order(hosts, turn))[:count]


def full_fleet(hosts: Sequence[Host], types: Types, load: Load) -> Fleet:
    """Each host has two NUMA nodes with half of its memory and GPUs; ``load`` is taken off."""
    return Fleet(hosts=tuple(_hosts(hosts, types, load)))


def _hosts(hosts: Sequence[Host], types: Types, load: Load) -> Iterator[HostSupply]:
    """Some at a time: the offers are those of the first, for all GPUs to share."""
    first = fleet_of(hosts[:1], types.shapes).hosts[0].gpus[0]
    for start in range(0, len(hosts), _AT_ONCE):
        for number, host in enumerate(fleet_of(hosts[start : start + _AT_ONCE], ()).hosts, start):
            half = -(-len(host.gpus) // 2)
            gpus = (
                replace(
                    first, id=f"{number}/{n}", device=gpu.device, model=gpu.model,
                    numa_node=int(n >= half), **load.gpu(number, n),
                )
                for n, gpu in enumerate(host.gpus)
            )  # fmt: skip
            cpu, memory = load.left(number)
            yield replace(
                host, name=str(number), gpus=tuple(gpus), free_vcpus=cpu, free_memory_mib=memory,
                numa=(_node(0, memory), _node(1, memory)),
            )  # fmt: skip


def _node(number: int, memory_mib: int) -> NumaSupply:
    return NumaSupply(id=number, free_cpus=(), free_memory_mib=memory_mib // 2)


def _wishing(number: int, vm: VmSpec) -> VmSpec:
    numa = NumaPolicy.REQUIRE if number % STRICT == STRICT - 1 else NumaPolicy.PREFER
    if number % APART != APART - 1:
        return replace(vm, numa=numa)
    group = {"app": f"service-{number}"}
    return replace(vm, numa=numa, labels=group, affinity=Affinity(apart_from=group))
