"""What the policy makes due about a GPU now: the action, the VMs that it is about.

`serve` does it or tells it; `health evaluate` shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vgpumgr.engine.hosts import gpu_drain
from vgpumgr.engine.layouts import gpu_reset
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.health.health_policy import GpuSituation, HealthAction, HealthPolicy, due, too_many
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.vm import VmRecord

WORDS: Mapping[HealthAction, str] = MappingProxyType(
    {
        HealthAction.CORDON: "be quarantined until it is lifted",
        HealthAction.DRAIN: "be drained",
        HealthAction.EVACUATE: "be evacuated",
        HealthAction.RESET: "be reset",
    }
)


@dataclass(frozen=True, slots=True)
class DueCare:
    """The next action about a GPU, None where it is to be told alone, and the VMs on the GPU."""

    gpu: GpuRecord
    action: HealthAction | None
    vms: tuple[VmRecord, ...]

    @property
    def words(self) -> str:
        """``be drained (desk-1, desk-2)``; empty where nothing is due."""
        names = f" ({', '.join(vm.name for vm in self.vms)})" if self.vms else ""
        return f"{WORDS[self.action]}{names}" if self.action is not None else ""


def due_care(context: EngineContext, policy: HealthPolicy, gpu: GpuRecord) -> DueCare:
    """By the ledger: a quarantine of a reset that went wrong is ours to try again, any other a
    person's to end.
    """
    vms = gpu_drain.holders(context, gpu)
    aside = gpu.state is GpuState.QUARANTINED and not gpu_reset.is_of_reset(gpu)
    situation = GpuSituation(health=gpu.health, quarantined=aside, vms=len(vms))
    return DueCare(gpu, due(policy, situation), vms)


def many_out(gpus: Collection[GpuRecord]) -> str:
    """``5 of 9 GPUs are out: look at them``, where that is more than boards that fail by
    themselves; else empty.
    """
    out = sum(not each.condition.takes_vms for each in gpus)
    if not too_many(out, len(gpus)):
        return ""
    return f"{out} of {len(gpus)} GPUs are out: look at them"
