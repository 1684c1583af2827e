"""What to compare with: strict first come, first served, and EASY backfill; both first-fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Shapes
from benchmarks.placement.policy import Place
from benchmarks.placement.queueing.scene import Scene
from benchmarks.placement.traces import MILLI


@dataclass(slots=True)
class _Runner:
    kind: int
    place: Place
    ends_by: float


class _FirstFit:
    """The first host in tie order with room; a share goes to the fullest GPU with room."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._cluster = Cluster(scene.hosts, Shapes(scene.shapes))
        self._running: dict[int, _Runner] = {}
        self._on: list[set[int]] = [set() for _ in scene.hosts]

    def end(self, request: int) -> None:
        """One that ran has ended."""
        gone = self._running.pop(request)
        self._on[gone.place.host].discard(request)
        self._cluster.hold(gone.kind, gone.place, -1)

    def _kind(self, request: int) -> int:
        return int(self._scene.kinds[request])

    def _host(self, kind: int, but: int | None = None) -> int | None:
        cluster, shapes = self._cluster, self._cluster.shapes
        fits = (cluster.gpus >= shapes.milli[kind]).sum(axis=1) >= shapes.gpus[kind]
        fits &= (cluster.cpu >= shapes.cpu[kind]) & (cluster.memory >= shapes.memory[kind])
        fits &= cluster.allowed[cluster.model, kind]
        if but is not None:
            fits[but] = False
        first = int(fits.argmax())
        return first if fits[first] else None

    def _gpus(self, kind: int, host: int) -> tuple[int, ...]:
        shapes, free = self._cluster.shapes, self._cluster.free(host)
        if shapes.share[kind]:
            return (int(np.where(free >= shapes.milli[kind], free, MILLI + 1).argmin()),)
        idle = np.flatnonzero(free == MILLI)
        return tuple(idle[: shapes.gpus[kind]].tolist())

    def _begin(self, request: int, host: int, now: float) -> tuple[int, Place]:
        kind = self._kind(request)
        place = Place(host, self._gpus(kind, host))
        self._cluster.hold(kind, place)
        self._running[request] = _Runner(kind, place, now + float(self._scene.bounds[request]))
        self._on[host].add(request)
        return request, place


class Fifo(_FirstFit):
    """Nobody starts before who came earlier."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._line: dict[int, None] = {}

    def come(self, request: int, now: float) -> None:
        """A request waits from now on."""
        self._line[request] = None

    def turn(self, now: float) -> list[tuple[int, Place]]:
        """What starts now."""
        started = []
        for request in list(self._line):
            host = self._host(self._kind(request))
            if host is None:
                break
            del self._line[request]
            started.append(self._begin(request, host, now))
        return started


@dataclass(slots=True)
class _Shadow:
    """Where and when the first in line will fit, by the bounds of what runs."""

    host: int
    at: float
    gone: list[int] = field(default_factory=list)


class Easy(Fifo):
    """Others may pass the first in line where they do not delay it, by everyone's bounds."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._refused: set[int] = set()
        self._changes = [0] * len(scene.hosts)
        self._known: dict[tuple[int, int], tuple[int, _Shadow | None]] = {}

    def end(self, request: int) -> None:
        """One that ran has ended."""
        self._changes[self._running[request].place.host] += 1
        super().end(request)
        self._refused.clear()

    def turn(self, now: float) -> list[tuple[int, Place]]:
        """What starts now."""
        started = super().turn(now)
        if not self._line:
            return started
        head, *others = self._line
        if started:
            self._refused.clear()
        shadow = self._shadow(self._kind(head), now)
        for request in others:
            kind = self._kind(request)
            if kind in self._refused:
                continue
            host = self._host(kind, shadow.host if shadow else None)
            if host is None and shadow and self._beside(request, self._kind(head), shadow, now):
                host = shadow.host
            if host is None:
                # A shorter one of its kind could pass on the shadow's host.
                if shadow is None or not self._cluster.fits(shadow.host)[kind]:
                    self._refused.add(kind)
                continue
            del self._line[request]
            started.append(self._begin(request, host, now))
        return started

    def _begin(self, request: int, host: int, now: float) -> tuple[int, Place]:
        self._changes[host] += 1
        return super()._begin(request, host, now)

    def _shadow(self, kind: int, now: float) -> _Shadow | None:
        found = (self._on_host(kind, host) for host in range(len(self._on)))
        known = [shadow for shadow in found if shadow is not None]
        return min(known, key=lambda each: (max(each.at, now), each.host), default=None)

    def _on_host(self, kind: int, host: int) -> _Shadow | None:
        changes, known = self._known.get((kind, host), (-1, None))
        if changes != self._changes[host]:
            known = self._soonest(kind, host)
            self._known[kind, host] = self._changes[host], known
        return known

    def _soonest(self, kind: int, host: int) -> _Shadow | None:
        shadow = _Shadow(host, -math.inf)
        order = sorted(self._on[host], key=lambda each: (self._running[each].ends_by, each))
        try:
            for request in order:
                if self._cluster.fits(host)[kind]:
                    break
                self._hold(request, -1)
                shadow.gone.append(request)
                shadow.at = self._running[request].ends_by
            return shadow if self._cluster.fits(host)[kind] else None
        finally:
            for request in shadow.gone:
                self._hold(request, 1)

    def _beside(self, request: int, head: int, shadow: _Shadow, now: float) -> bool:
        """Whether it fits on the shadow's host and the first in line still does then."""
        kind, host = self._kind(request), shadow.host
        if not self._cluster.fits(host)[kind]:
            return False
        if now + self._scene.bounds[request] <= shadow.at:
            return True
        place = Place(host, self._gpus(kind, host))
        self._cluster.hold(kind, place)
        gone = [each for each in shadow.gone if each in self._running]
        for each in gone:
            self._hold(each, -1)
        fits = bool(self._cluster.fits(host)[head])
        for each in gone:
            self._hold(each, 1)
        self._cluster.hold(kind, place, -1)
        return fits

    def _hold(self, request: int, sign: int) -> None:
        runner = self._running[request]
        self._cluster.hold(runner.kind, runner.place, sign)
