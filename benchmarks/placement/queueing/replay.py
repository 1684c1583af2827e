"""One policy over one scene, every start checked by arithmetic of its own."""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.checker import InvalidPlacement, Ledger
from benchmarks.placement.queueing.policies import Policy
from benchmarks.placement.queueing.scene import Scene
from benchmarks.placement.traces import MILLI


@dataclass(frozen=True, slots=True)
class Run:
    """When each request started, and the CPU seconds that the policy took in all."""

    starts: NDArray[np.float64]
    cpu_s: float
    turns: int


def replay(policy: Policy, scene: Scene) -> Run:
    """Until everything has started and ended; raises ``InvalidPlacement``."""
    ledgers = [Ledger(h, h.cpu_milli, h.memory_mib, [MILLI] * h.gpus) for h in scene.hosts]
    starts = np.full(len(scene.at), np.nan)
    coming = iter(range(len(scene.at)))
    following = next(coming, None)
    ends: list[tuple[float, int]] = []
    places = {}
    turns, spent = 0, 0.0
    while following is not None or ends:
        arrival = math.inf if following is None else float(scene.at[following])
        now = min(arrival, ends[0][0] if ends else math.inf)
        begun = time.process_time()
        while ends and ends[0][0] <= now:
            _, request = heapq.heappop(ends)
            place = places.pop(request)
            ledgers[place.host].free(scene.shapes[scene.kinds[request]], place.gpus)
            policy.end(request)
        while following is not None and scene.at[following] <= now:
            policy.come(following, now)
            following = next(coming, None)
        started = policy.turn(now)
        spent += time.process_time() - begun
        turns += 1
        for request, place in started:
            if not math.isnan(starts[request]):
                raise InvalidPlacement(f"request {request} started twice")
            ledgers[place.host].hold(scene.shapes[scene.kinds[request]], place.gpus)
            starts[request] = now
            places[request] = place
            heapq.heappush(ends, (now + float(scene.lasts[request]), request))
    if np.isnan(starts).any():
        raise InvalidPlacement(f"{int(np.isnan(starts).sum())} requests never started")
    return Run(starts, round(spent, 2), turns)
