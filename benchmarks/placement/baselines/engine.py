"""The engine that all baselines share: a score per shape and host, kept up by re-scoring hosts.

A decision is one look along a row; whatever is placed or released changes one host, and only that
host is scored again, for all shapes at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Floats, Ints, Shapes
from benchmarks.placement.policy import Place
from benchmarks.placement.traces import MILLI, Host, Shape


class Rule:
    """How one policy scores hosts and chooses GPUs. Higher scores win.

    As it stands: all hosts are worth the same, the first in tie order is taken, and a share goes
    to the fullest GPU with room (the first of equals).
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def scores(self, host: int) -> Floats:
        """What the host is worth to every shape, whether or not it fits there."""
        return np.zeros(len(self.cluster.shapes.all))

    def choose(self, kind: int, row: Floats) -> int:
        """The host among those that fit; ``row`` is -inf elsewhere."""
        return int(row.argmax())

    def gpu(self, kind: int, host: int) -> int:
        """The GPU for a share that fits on the host."""
        free = self.cluster.free(host)
        milli = self.cluster.shapes.milli[kind]
        return int(np.where(free >= milli, free, MILLI + 1).argmin())


class Baseline:
    """A policy made of a rule."""

    def __init__(self, cluster: Cluster, rule: Rule) -> None:
        self._cluster = cluster
        self._rule = rule
        self._held: dict[int, tuple[int, Place]] = {}
        count = len(cluster.counts)
        self._scores = np.empty((len(cluster.shapes.all), count))
        for host in range(count):
            self._score(host)

    def place(self, request: int, kind: int) -> Place | None:
        """Decide a request of this shape and hold what it takes; None is a refusal."""
        row = self._scores[kind]
        host = self._rule.choose(kind, row)
        if row[host] == -np.inf:
            return None
        place = Place(host, self._gpus(kind, host))
        self._held[request] = kind, place
        self._cluster.hold(kind, place)
        self._score(host)
        return place

    def release(self, request: int) -> None:
        """Give back what the request holds."""
        kind, place = self._held.pop(request)
        self._cluster.hold(kind, place, -1)
        self._score(place.host)

    def rest(self) -> None:
        """Nothing is left over."""

    def _score(self, host: int) -> None:
        fits = self._cluster.fits(host)
        self._scores[:, host] = np.where(fits, self._rule.scores(host), -np.inf)

    def _gpus(self, kind: int, host: int) -> tuple[int, ...]:
        shapes = self._cluster.shapes
        if shapes.share[kind]:
            return (self._rule.gpu(kind, host),)
        idle = np.flatnonzero(self._cluster.free(host) == MILLI)
        return tuple(idle[: shapes.gpus[kind]].tolist())


def cluster_of(hosts: Sequence[Host], shapes: Sequence[Shape]) -> Cluster:
    """The empty fleet."""
    return Cluster(hosts, Shapes(shapes))


def idle(free: Ints) -> int:
    """How many GPUs nothing lives on."""
    return int((free == MILLI).sum())
