"""The published baselines beside FGD, as the FGD paper's simulator defines them.

Integer scores, ties to the first host in tie order, shares on the fullest GPU with room.
"""

from __future__ import annotations

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Floats
from benchmarks.placement.baselines.engine import Rule, idle
from benchmarks.placement.traces import MILLI

LARGEST_CPU, LARGEST_GPU = 128_000, 8_000
"""The largest host, to which CPU and GPU thousandths are scaled."""


class Random(Rule):
    """Any host that fits, any GPU with room."""

    def __init__(self, cluster: Cluster, random: np.random.Generator) -> None:
        super().__init__(cluster)
        self._random = random

    def choose(self, kind: int, row: Floats) -> int:
        fitting = np.flatnonzero(row > -np.inf)
        return int(self._random.choice(fitting)) if len(fitting) else 0

    def gpu(self, kind: int, host: int) -> int:
        roomy = np.flatnonzero(self.cluster.free(host) >= self.cluster.shapes.milli[kind])
        return int(self._random.choice(roomy))


class DotProd(Rule):
    """Tetris turned round: the smaller the product of free and asked, the better."""

    def scores(self, host: int) -> Floats:
        cluster, shapes = self.cluster, self.cluster.shapes
        cpu = shapes.cpu / LARGEST_CPU * (cluster.cpu[host] / LARGEST_CPU)
        gpu = shapes.demand / LARGEST_GPU * (cluster.free(host).sum() / LARGEST_GPU)
        scores: Floats = np.trunc(100 * (1 - (cpu + gpu) / 2))
        return scores


class BestFit(Rule):
    """The host on which least CPU and GPU are left, weighed alike."""

    def scores(self, host: int) -> Floats:
        cluster, shapes = self.cluster, self.cluster.shapes
        cpu = (cluster.cpu[host] - shapes.cpu) / LARGEST_CPU
        gpu = (cluster.free(host).sum() - shapes.demand) / LARGEST_GPU
        scores: Floats = np.trunc(100 * (1 - 0.5 * cpu - 0.5 * gpu))
        return scores


class Clustering(Rule):
    """Hosts that hold tasks of the same group, then with others among them, then empty ones."""

    def scores(self, host: int) -> Floats:
        cluster, shapes = self.cluster, self.cluster.shapes
        same = cluster.living[host][shapes.groups] > 0
        kinds = len(np.unique(shapes.groups[shapes.with_gpus][same[shapes.with_gpus]]))
        shared = 75 if kinds == 1 else 50
        full = 25 * (LARGEST_GPU - int(cluster.free(host).sum())) // LARGEST_GPU
        other = 25 if kinds == 0 else 0
        return np.where(shapes.with_gpus, full + np.where(same, shared, other), 0).astype(float)


class Packing(Rule):
    """GPUs that are shared already, then idle ones on a host in use, then idle hosts."""

    def scores(self, host: int) -> Floats:
        shapes, free = self.cluster.shapes, np.sort(self.cluster.free(host))
        if idle(free) == len(free):
            return np.where(shapes.with_gpus, max(33 - len(free), len(free)), 0).astype(float)
        roomy = free >= shapes.milli[:, None]
        first = free[np.minimum(roomy.argmax(axis=1), len(free) - 1)]
        taken = np.where(shapes.share, first == MILLI, shapes.gpus)
        onto_idle = np.maximum(50 - taken, 33)
        onto_shared = np.maximum(100 - first * 100 // MILLI // 10, 50)
        return np.where(shapes.with_gpus, np.where(taken > 0, onto_idle, onto_shared), 0.0)
