"""The decision rules of products, emulated on whole GPUs and fractions of one.

Only the rule: none of them knows fractions as this trace has them, and their queues, samples of
hosts and caches are left out. Scores are not rounded to integers, which favours the rules.
"""

from __future__ import annotations

import numpy as np

from benchmarks.placement.baselines.cluster import Floats, Ints
from benchmarks.placement.baselines.engine import Rule
from benchmarks.placement.traces import MILLI

DEVICES = 100
"""Nova's PCI weigher counts free devices down from this."""


class Kubernetes(Rule):
    """kube-scheduler's LeastAllocated: the largest parts of CPU and memory left."""

    def scores(self, host: int) -> Floats:
        cluster, shapes = self.cluster, self.cluster.shapes
        cpu = (cluster.cpu[host] - shapes.cpu) / max(1, cluster.cpu_total[host])
        memory = (cluster.memory[host] - shapes.memory) / max(1, cluster.memory_total[host])
        scores: Floats = cpu + memory
        return scores


class Nova(Rule):
    """Nova's weighers: free RAM, free CPU, few free PCI devices, each as a part of the largest
    among the hosts that fit; the first resource provider with room.
    """

    def choose(self, kind: int, row: Floats) -> int:
        cluster = self.cluster
        fitting = np.flatnonzero(row > -np.inf)
        if not len(fitting):
            return 0
        devices = DEVICES - (cluster.gpus[fitting] == MILLI).sum(axis=1)
        columns = (cluster.memory[fitting], cluster.cpu[fitting], devices)
        weights = np.sum([_part_of_largest(column) for column in columns], axis=0)
        return int(fitting[weights.argmax()])

    def gpu(self, kind: int, host: int) -> int:
        return int((self.cluster.free(host) >= self.cluster.shapes.milli[kind]).argmax())


class Hami(Rule):
    """HAMi's defaults: hosts binpacked by the GPU in use, devices spread."""

    def scores(self, host: int) -> Floats:
        free = self.cluster.free(host)
        used = float((MILLI - free).sum()) / (MILLI * max(1, len(free)))
        return np.full(len(self.cluster.shapes.all), used)

    def gpu(self, kind: int, host: int) -> int:
        return int(self.cluster.free(host).argmax())


class Vsphere(Kubernetes):
    """vSphere's defaults: the least loaded host, there the GPU with the fewest VMs."""

    def gpu(self, kind: int, host: int) -> int:
        roomy = self.cluster.free(host) >= self.cluster.shapes.milli[kind]
        tasks = self.cluster.tasks[host, : len(roomy)]
        return int(np.where(roomy, tasks, MILLI).argmin())


def _part_of_largest(values: Ints) -> Floats:
    part: Floats = values / max(1, int(values.max()))
    return part
