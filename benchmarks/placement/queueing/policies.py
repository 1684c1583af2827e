"""Who starts when: what a replay asks of a policy, and the product's own queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from benchmarks.placement.policy import Place
from benchmarks.placement.queueing.scene import Scene
from benchmarks.placement.supply import fleet_of, vm_of
from benchmarks.placement.traces import Shape
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueRules, WaitingVm
from vgpumgr.model.vm import PlacementPolicy, Terms
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.waiting_queue import WaitingQueue
from vgpumgr.placement.request_mix import Mix


class Policy(Protocol):
    """It knows the past, what waits, and of how long things run the bounds or nothing."""

    def come(self, request: int, now: float) -> None:
        """A request waits from now on."""
        ...

    def end(self, request: int) -> None:
        """One that ran has ended."""
        ...

    def turn(self, now: float) -> list[tuple[int, Place]]:
        """What starts now."""
        ...


class Ours:
    """``WaitingQueue`` over the product's ``Placer``, under one set of rules for all loads.

    ``history`` is what placement knows of requests beforehand; ``bounds`` whether users say how
    long they run at most; ``planned`` whether placement goes by a plan made from the history.
    """

    def __init__(
        self,
        scene: Scene,
        history: Sequence[Shape],
        *,
        bounds: bool = True,
        rules: QueueRules | None = None,
        planned: bool = False,
    ) -> None:
        fleet = fleet_of(scene.hosts, scene.shapes)
        past = [vm_of(shape) for shape in history]
        placer = Placer(
            fleet,
            PlacementPolicy.CAPACITY_FIRST,
            mix=Mix.of(past),
            plan=_plan(fleet, past) if planned else None,
        )
        self._scene, self._bounds = scene, bounds
        self._queue = WaitingQueue(placer, rules=rules or QueueRules())
        self._vms = [vm_of(shape) for shape in scene.shapes]
        self._host = {host.name: number for number, host in enumerate(fleet.hosts)}
        self._gpu = {gpu.id: n for host in fleet.hosts for n, gpu in enumerate(host.gpus)}

    def come(self, request: int, now: float) -> None:
        """A request waits from now on."""
        vm = replace(self._vms[self._scene.kinds[request]], name=str(request))
        runtime = float(self._scene.bounds[request]) if self._bounds else None
        self._queue.add(WaitingVm(vm=vm, since=now, terms=Terms(runtime_s=runtime)))

    def end(self, request: int) -> None:
        """One that ran has ended."""
        self._queue.end(str(request))

    def turn(self, now: float) -> list[tuple[int, Place]]:
        """What starts now."""
        return [
            (int(each.waiting.vm.name), self._place(each.placed)) for each in self._queue.turn(now)
        ]

    def _place(self, placed: Placed) -> Place:
        return Place(
            self._host[placed.host], tuple(self._gpu[part.gpu] for part in placed.assignments)
        )


def _plan(fleet: object, past: object) -> object:
    from vgpumgr.placement.capacity_plan.plan_maker import make_plan
    from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan

    plan = make_plan(fleet, past)
    return plan if isinstance(plan, CapacityPlan) else None
