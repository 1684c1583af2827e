"""Hosts and shapes as arrays: what the baselines' rules score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.policy import Place
from benchmarks.placement.traces import MILLI, Host, Shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Shapes:
    """Columns over the shapes; ``groups`` are small numbers for cpu, share, 1, 2, …."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.all = tuple(shapes)
        self.cpu = _ints(shape.cpu_milli for shape in shapes)
        self.memory = _ints(shape.memory_mib for shape in shapes)
        self.gpus = _ints(shape.gpus for shape in shapes)
        self.milli = _ints(shape.gpu_milli for shape in shapes)
        self.demand = self.gpus * self.milli
        self.share = (self.milli > 0) & (self.milli < MILLI)
        names = sorted({shape.group for shape in shapes})
        self.groups = _ints(names.index(shape.group) for shape in shapes)
        self.with_gpus = self.gpus > 0


class Cluster:
    """Free CPU, memory and GPU thousandths per host, in tie order.

    ``gpus[host]`` has one entry per GPU, and -1 up to the number of GPUs of the largest host.
    ``tasks[host]`` counts the tasks on each GPU, ``living[host]`` those of each group of shapes.
    """

    def __init__(self, hosts: Sequence[Host], shapes: Shapes) -> None:
        self.shapes = shapes
        self.counts = _ints(host.gpus for host in hosts)
        self.cpu_total = _ints(host.cpu_milli for host in hosts)
        self.memory_total = _ints(host.memory_mib for host in hosts)
        self.cpu = self.cpu_total.copy()
        self.memory = self.memory_total.copy()
        width = max(1, int(self.counts.max()))
        self.gpus = np.where(np.arange(width) < self.counts[:, None], MILLI, -1)
        self.tasks = np.zeros_like(self.gpus)
        self.living = np.zeros((len(hosts), int(shapes.groups.max()) + 1), dtype=np.int64)
        self.models = sorted({host.model for host in hosts})
        self.model = _ints(self.models.index(host.model) for host in hosts)
        self.allowed = np.array(
            [
                [not shape.models or model in shape.models for shape in shapes.all]
                for model in self.models
            ]
        )

    def free(self, host: int) -> Ints:
        """Free thousandths of each GPU of the host."""
        return self.gpus[host, : self.counts[host]]

    def fits(self, host: int) -> Flags:
        """Which shapes the host can take."""
        shapes = self.shapes
        roomy = (self.gpus[host] >= shapes.milli[:, None]).sum(axis=1) >= shapes.gpus
        enough = (shapes.cpu <= self.cpu[host]) & (shapes.memory <= self.memory[host])
        fits: Flags = roomy & enough & self.allowed[self.model[host]]
        return fits

    def hold(self, kind: int, place: Place, sign: int = 1) -> None:
        """Take what a task of this shape needs there; ``sign`` -1 gives it back."""
        host, gpus, shapes = place.host, list(place.gpus), self.shapes
        self.cpu[host] -= sign * shapes.cpu[kind]
        self.memory[host] -= sign * shapes.memory[kind]
        self.gpus[host, gpus] -= sign * shapes.milli[kind]
        self.tasks[host, gpus] += sign
        self.living[host, shapes.groups[kind]] += sign


def _ints(values: object) -> Ints:
    return np.fromiter(values, dtype=np.int64)  # type: ignore[call-overload,no-any-return]
