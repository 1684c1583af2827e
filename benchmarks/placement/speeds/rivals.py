"""How others decide, emulated beside us in one process, on arrays, without queue or network.

Neither knows quotas, NUMA or company here, and arrays favour them: theirs are objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Protocol

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Flags, Floats, Ints
from benchmarks.placement.policy import Place
from benchmarks.placement.speeds.stopwatch import Stopwatch
from benchmarks.placement.traces import MILLI

MOST_CANDIDATES = 1000
"""What Nova asks of Placement (``max_placement_results``)."""

FEWEST_HOSTS, LEAST_PERCENT = 100, 5
"""kube-scheduler scores as many feasible hosts at least (``minFeasibleNodesToFind``)."""


class Rival(Protocol):
    """Decides on the cluster it was made with, and holds what it decided."""

    def decide(self, kind: int) -> Place | None:
        """Where a request of this kind goes; it is held there."""


class Placement:
    """Placement's allocation candidates, all that there are up to 1,000, then Nova's weighers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def decide(self, kind: int) -> Place | None:
        """See ``Rival``."""
        cluster, shapes = self._cluster, self._cluster.shapes
        fits = _fits(cluster, kind, slice(None))
        roomy = cluster.gpus[fits] >= shapes.milli[kind]
        if shapes.share[kind]:
            at, gpu = np.nonzero(roomy)
            found = np.flatnonzero(fits)[at][:MOST_CANDIDATES]
            gpus: list[tuple[int, ...]] = [(n,) for n in gpu[:MOST_CANDIDATES].tolist()]
        else:
            found = np.flatnonzero(fits)[:MOST_CANDIDATES]
            gpus = [_first(each, int(shapes.gpus[kind])) for each in roomy[: len(found)]]
        if not len(found):
            return None
        candidates = [
            self._candidate(kind, *each) for each in zip(found.tolist(), gpus, strict=True)
        ]
        place, _ = candidates[int(self._weights(found).argmax())]
        cluster.hold(kind, place)
        return place

    def _candidate(
        self, kind: int, host: int, gpus: tuple[int, ...]
    ) -> tuple[Place, dict[str, dict[str, int]]]:
        """What each resource provider would give."""
        shapes = self._cluster.shapes
        own = {"VCPU": int(shapes.cpu[kind]), "MEMORY_MB": int(shapes.memory[kind])}
        vgpu = {"VGPU": int(shapes.milli[kind])}
        return Place(host, gpus), {str(host): own, **{f"{host}/{gpu}": vgpu for gpu in gpus}}

    def _weights(self, hosts: Ints) -> Floats:
        cluster = self._cluster
        whole = (cluster.gpus[hosts] == MILLI).sum(axis=1)
        columns = cluster.memory[hosts], cluster.cpu[hosts], -whole
        return np.asarray(sum(_normal(column) for column in columns))


class Sampling:
    """kube-scheduler: the next hosts that fit, half of them at 100 hosts, 5 % from 5,625 on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = 0
        count = len(cluster.counts)
        percent = max(LEAST_PERCENT, 50 - count // 125)
        self._wanted = min(count, max(FEWEST_HOSTS, count * percent // 100))

    def decide(self, kind: int) -> Place | None:
        """See ``Rival``."""
        cluster, shapes = self._cluster, self._cluster.shapes
        found = self._sample(kind)
        if not len(found):
            return None
        cpu = (cluster.cpu[found] - shapes.cpu[kind]) / np.maximum(1, cluster.cpu_total[found])
        memory = cluster.memory[found] - shapes.memory[kind]
        scores = cpu + memory / np.maximum(1, cluster.memory_total[found])
        host = int(found[scores.argmax()])
        roomy = cluster.gpus[host] >= shapes.milli[kind]
        place = Place(host, _first(roomy, int(shapes.gpus[kind])))
        cluster.hold(kind, place)
        return place

    def _sample(self, kind: int) -> Ints:
        count, wanted = len(self._cluster.counts), self._wanted
        found: list[Ints] = []
        seen = fit = 0
        while seen < count and fit < wanted:
            some = (self._next + np.arange(seen, min(count, seen + wanted))) % count
            those = some[_fits(self._cluster, kind, some)][: wanted - fit]
            last = some[-1] if fit + len(those) < wanted else those[-1]
            found.append(those)
            fit += len(those)
            seen += len(some)
        self._next = int(last + 1) % count
        return np.concatenate(found)


def _fits(cluster: Cluster, kind: int, hosts: slice | Ints) -> Flags:
    shapes = cluster.shapes
    roomy = (cluster.gpus[hosts] >= shapes.milli[kind]).sum(axis=1) >= shapes.gpus[kind]
    enough = (cluster.cpu[hosts] >= shapes.cpu[kind]) & (
        cluster.memory[hosts] >= shapes.memory[kind]
    )
    fits: Flags = roomy & enough & cluster.allowed[cluster.model[hosts], kind]
    return fits


def _first(roomy: Flags, count: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(roomy)[:count].tolist())


def _normal(values: Ints) -> Floats:
    """Nova's weighers: from 0 for the least to 1 for the most."""
    low, high = int(values.min()), int(values.max())
    return np.asarray((values - low) / max(1, high - low))


RIVALS: dict[str, Callable[[Cluster], Rival]] = {
    "placement-and-weighers": Placement,
    "sampling": Sampling,
}


def against(
    make: Callable[[Cluster], Rival], cluster: Cluster, kinds: Sequence[int], most: int
) -> dict[str, Any]:
    """The figures of one rival; the oldest request leaves when there are more than ``most``."""
    own = deepcopy(cluster)
    rival, watch, refused = make(own), Stopwatch(), 0
    held: deque[tuple[int, Place]] = deque()
    for kind in kinds:
        with watch.running():
            place = rival.decide(kind)
        if place is None:
            refused += 1
        else:
            held.append((kind, place))
        if len(held) > most:
            own.hold(*held.popleft(), -1)
    return {"decision": watch.figures(), "per_second": watch.per_second(), "refused": refused}
