"""The product under the stopwatch."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.placement.speeds.fleet import Types
from benchmarks.placement.speeds.stopwatch import Stopwatch, rss_mib
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.capacity_plan.plan_maker import make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan

RACK = 40


def ours(
    fleet: Fleet, types: Types, history: Sequence[int], kinds: Sequence[int], most: int
) -> dict[str, Any]:
    """Its figures; the oldest VM leaves when there are more than ``most``."""
    past = [types.vms[kind] for kind in history]
    memory = {"fleet": rss_mib()}
    solving, starting, cold, ahead = Stopwatch(), Stopwatch(), Stopwatch(), Stopwatch()
    with solving.running():
        made = make_plan(fleet, past)
    plan = made if isinstance(made, CapacityPlan) else None
    with starting.running():
        policy = PlacementPolicy.CAPACITY_FIRST
        placer = Placer(fleet, policy, mix=Mix.of(past), plan=plan, seed=1)
    with cold.running():
        placer.decide(types.vms[kinds[0]], explain=False)
    with ahead.running():
        placer.rate_ahead()
    answer, after, refused = _decided(placer, types, kinds, most)
    gc.collect()
    memory["all"] = rss_mib()
    both = answer.plus(after)
    return {
        "answer": answer.figures(), "decision": both.figures(), "per_second": both.per_second(),
        "refused": refused, "rss_mib": memory, "planned": plan is not None,
        "ms": {
            "plan": solving.ms(), "start": starting.ms(), "first_decision": cold.ms(),
            "rating_ahead": ahead.ms(),
            "after_a_host_failed": _after_failing(placer, types, kinds[0], fleet, 1),
            "after_a_rack_failed": _after_failing(placer, types, kinds[0], fleet, RACK),
        },
    }  # fmt: skip


def _decided(
    placer: Placer, types: Types, kinds: Sequence[int], most: int
) -> tuple[Stopwatch, Stopwatch, int]:
    answer, after, refused = Stopwatch(), Stopwatch(), 0
    held: deque[Placed] = deque()
    gc.collect()
    for number, kind in enumerate(kinds):
        vm = replace(types.vms[kind], name=f"vm-{number}")
        with answer.running():
            decision = placer.decide(vm, explain=False)
        with after.running():
            if isinstance(decision, Placed):
                placer.commit(decision)
        if isinstance(decision, Placed):
            held.append(decision)
        else:
            refused += 1
        if len(held) > most:
            placer.release(held.popleft())
    return answer, after, refused


def _after_failing(
    placer: Placer, types: Types, kind: int, fleet: Fleet, count: int
) -> dict[str, float]:
    """Hosts fail, and the next decision."""
    watch = Stopwatch()
    with watch.running():
        for host in fleet.hosts[:count]:
            placer.block(host.name, "failed")
        placer.decide(types.vms[kind], explain=False)
    return watch.ms()
