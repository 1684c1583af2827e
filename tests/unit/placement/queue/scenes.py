"""Small fleets and who waits on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.unit.placement.test_place import gpu, host, vm
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueDecision, RunningVm, WaitingVm
from vgpumgr.model.quota import Quota
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, Terms, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.queue.waiting_queue import turn

NOW = 1000.0


def fleet_of(hosts: int = 1, gpus: int = 1, vcpus: int = 64) -> Fleet:
    """Hosts ``h1``, ``h2``, … with GPUs of 16 GiB each."""
    return Fleet(
        hosts=tuple(
            host(f"h{n + 1}", *(gpu(f"h{n + 1}g{m + 1}") for m in range(gpus)), vcpus=vcpus)
            for n in range(hosts)
        )
    )


def waits(
    name: str, *profiles: str, since: float = 0.0, tenant: str = "default", **terms: object
) -> WaitingVm:
    """A request by profiles (none: a VM without GPUs)."""
    spec = vm(*profiles, name=name, tenant=tenant)
    return WaitingVm(vm=spec, since=since, terms=Terms(**terms))  # type: ignore[arg-type]


def whole(name: str, count: int = 1, **more: object) -> WaitingVm:
    """A request for whole GPUs."""
    return waits(name, *["passthrough"] * count, **more)  # type: ignore[arg-type]


class Scene:
    """A fleet, and what runs on it."""

    def __init__(self, fleet: Fleet) -> None:
        self.placer = Placer(fleet, PlacementPolicy.DEPTH_FIRST)
        self.running: list[RunningVm] = []

    def runs(self, each: WaitingVm, since: float = 0.0) -> RunningVm:
        """It has started at ``since``, where the placer says."""
        placed = self.placer.decide(each.vm)
        assert isinstance(placed, Placed), each.vm.name
        self.placer.commit(placed)
        self.running.append(RunningVm(placed=placed, since=since, terms=each.terms))
        return self.running[-1]

    def turn(
        self,
        *waiting: WaitingVm,
        quotas: Sequence[Quota] = (),
        now: float = NOW,
        **more: object,
    ) -> QueueDecision:
        """One turn over these."""
        return turn(self.placer, waiting, self.running, quotas, now, **more)  # type: ignore[arg-type]


def started(found: QueueDecision) -> list[str]:
    return [each.waiting.vm.name for each in found.starts]


def why(found: QueueDecision) -> dict[str, str]:
    return {each.waiting.vm.name: str(each.why) for each in found.waits}


def text(found: QueueDecision, name: str) -> str:
    return next(each.text for each in found.waits if each.waiting.vm.name == name)


def renamed(spec: VmSpec, name: str) -> VmSpec:
    return replace(spec, name=name)
