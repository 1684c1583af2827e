"""The simulated side of the day: a clock, hosts that are placed on, and how long things take.

A desktop is up 60 to 120 s after it was begun, and gone 20 s after it was deleted. One made from
the bad image is given up as failed after ten minutes. The lost host is proven to be off after 30 s.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import numpy as np

from benchmarks.vdi.scene import BAD
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import DEFAULT_POLICY, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.headroom import startable

GONE_S, GIVEN_UP_S, FENCED_S = 20.0, 600.0, 30.0
PROBED = 32
"""How far a turn looks whether more could start: so many may begin at a time."""


class Clock:
    """Virtual time: callbacks in the order of their times, then of their making."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def call(self, when: float, what: Callable[[], None]) -> None:
        """At ``when``, not before now."""
        heapq.heappush(self._queue, (max(when, self.now), next(self._numbers), what))

    def run(self, end: float) -> None:
        """All that is due before ``end``."""
        while self._queue and self._queue[0][0] < end:
            self.now, _, what = heapq.heappop(self._queue)
            what()


class Hosts:
    """GPUs, placed on by the product's ``Placer``; what is held goes by the desktop's name."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._placer = Placer(fleet, DEFAULT_POLICY)
        self._random = np.random.default_rng((seed, 2))
        self._held: dict[str, Placed] = {}
        self._startable: dict[str, int] = {}
        self.units = sum(gpu.units for host in fleet.hosts for gpu in host.gpus)

    def place(self, name: str, request: VmSpec) -> str:
        """The host it is on from now on; empty where it does not fit."""
        decision = self._placer.decide(request, explain=False)
        if not isinstance(decision, Placed):
            return ""
        self._placer.commit(decision)
        self._held[name] = decision
        self._changed(request)
        return decision.host

    def leave(self, name: str) -> None:
        """What it held is free again."""
        if placed := self._held.pop(name, None):
            self._placer.release(placed)
            self._changed(placed.request)

    def startable(self, request: VmSpec) -> int:
        """How many more like it could start, at most ``PROBED``."""
        profile = request.gpus[0].profile
        if profile not in self._startable:
            self._startable[profile] = startable(self._placer, request, PROBED)
        return self._startable[profile]

    def lose(self, host: str) -> list[str]:
        """The host is off: desktops that were on it; what they held is of no use to others."""
        self._placer.block(host, "it is off")
        self._startable.clear()
        return sorted(name for name, placed in self._held.items() if placed.host == host)

    def _changed(self, request: VmSpec) -> None:
        """What was known of desktops on the same kind of board is out of date."""
        for profile in [
            each for each in self._startable if _board(each) == _board(request.gpus[0].profile)
        ]:
            del self._startable[profile]

    def held_units(self, name: str) -> int:
        """How much of a GPU it holds."""
        return sum(len(part.slots) for part in self._held[name].assignments)

    def lost_one(self, seed: int) -> str:
        """A host with desktops, drawn from the seed."""
        used = sorted({placed.host for placed in self._held.values()})
        return used[int(np.random.default_rng((seed, 3)).integers(len(used)))]

    def takes_s(self, image: str) -> tuple[float, bool]:
        """How long until a desktop of the image is up, or given up as failed (False)."""
        if image.endswith(BAD):
            return GIVEN_UP_S, False
        return float(self._random.uniform(60.0, 120.0)), True


def _board(profile: str) -> str:
    """``A40-2Q`` → ``A40``."""
    return profile.split("-")[0]
