"""What lies on a fleet before a run: tasks put on hosts at random until so much of it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Shapes
from benchmarks.placement.policy import Place
from benchmarks.placement.traces import MILLI, Host, Shape
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework
from vgpumgr.model.supply import Usage

_TRIES = 50
"""Hosts that a task is tried on; then it is left out."""


class Load:
    """The fleet's numbers, and what was put on each GPU: ``placed[host][gpu]`` are sizes."""

    def __init__(self, hosts: Sequence[Host], shapes: Sequence[Shape]) -> None:
        self.cluster = Cluster(hosts, Shapes(shapes))
        self._placed: dict[tuple[int, int], tuple[int, ...]] = {}

    def fill(self, share: float, kinds: Sequence[int], seed: int) -> None:
        """Put tasks of these kinds, one after the other again and again, until it is reached."""
        random = np.random.default_rng(seed)
        cluster = self.cluster
        goal = share * int(cluster.counts.sum()) * MILLI
        used, turn = 0, 0
        hosts: Iterator[int] = iter(())
        while used < goal:
            kind = kinds[turn % len(kinds)]
            turn += 1
            for _ in range(_TRIES):
                host = next(hosts, -1)
                if host < 0:
                    hosts = iter(random.integers(len(cluster.counts), size=1 << 16).tolist())
                    host = next(hosts)
                if self._put(host, kind):
                    used += int(cluster.shapes.demand[kind])
                    break

    def gpu(self, host: int, gpu: int) -> dict[str, Any]:
        """What of a GPU's supply is not as on an empty one."""
        sizes = self._placed.get((host, gpu), ())
        return {
            "free_slots": _free(MILLI - sum(sizes)),
            "usages": tuple(_usage(size) for size in sizes),
        }

    def left(self, host: int) -> tuple[int, int]:
        """Thousandths of a core and MiB."""
        return int(self.cluster.cpu[host]), int(self.cluster.memory[host])

    def _put(self, host: int, kind: int) -> bool:
        cluster, shapes = self.cluster, self.cluster.shapes
        if shapes.cpu[kind] > cluster.cpu[host] or shapes.memory[kind] > cluster.memory[host]:
            return False
        if not cluster.allowed[cluster.model[host], kind]:
            return False
        milli, count = int(shapes.milli[kind]), int(shapes.gpus[kind])
        roomy = [n for n, free in enumerate(cluster.free(host).tolist()) if free >= milli]
        if len(roomy) < count:
            return False
        gpus = tuple(roomy[:count])
        cluster.hold(kind, Place(host, gpus))
        for gpu in gpus:
            self._placed[host, gpu] = (*self._placed.get((host, gpu), ()), milli)
        return True


@cache
def _free(units: int) -> tuple[int, ...]:
    return tuple(range(MILLI - units, MILLI))


@cache
def _usage(milli: int) -> Usage:
    if milli == MILLI:
        whole = Framework.PASSTHROUGH
        return Usage(profile=PASSTHROUGH_PROFILE, framework=whole, units=MILLI)
    return Usage(profile=f"share-{milli}", framework=Framework.MDEV, units=milli)
