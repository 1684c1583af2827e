"""Hosts that come, are emptied, are lost, and go."""

from __future__ import annotations

from vgpumgr.engine.draining import Choice
from vgpumgr.engine.evacuation.plan import EvacuationPlan
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import drain, enrol, evacuate, fence, maintenance, remove
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.fence import Fence
from vgpumgr.model.host import HostRecord


class Membership(Session):
    """Hosts as members of the fleet."""

    __slots__ = ()

    def enrol(self, record: HostRecord, *, install: bool) -> Outcome:
        """Bring a host whose key is pinned into the fleet, with its helper installed or not."""
        return enrol.enrol(self, record, install=install)

    def staying(self, host: str) -> tuple[str, ...]:
        """What of ours a host keeps when it is removed, by what was seen last."""
        return remove.staying(self.view(), self.ledger.host(host).name)

    def remove_host(self, host: str) -> remove.Removed:
        """Take a host out, and all that is ours off it; Conflict while it is in use."""
        return remove.remove(self, host)

    def forget_host(self, host: str) -> None:
        """Take a host out that is gone for good, without asking it."""
        remove.forget(self, host)

    def drain_plan(self, wanted: drain.Drain) -> tuple[Choice, ...]:
        """Probe, then say where every VM of a host would go."""
        return drain.plan(self, wanted)

    def drain(self, wanted: drain.Drain) -> drain.Drained:
        """Cordon a host and move its VMs away; those that cannot go stay, with the reason."""
        return drain.drain(self, wanted)

    def undrain(self, host: str) -> None:
        """Place VMs on a host again."""
        drain.end(self, host)

    def enter_maintenance(self, host: str) -> None:
        """Nothing runs there: from now on nobody acts there, and it may be off."""
        maintenance.enter(self, host)

    def leave_maintenance(self, host: str) -> DriftReport:
        """Probe and compare; a host that is as it should be takes VMs again."""
        return maintenance.leave(self, host)

    def fence(self, host: str, wanted: Fence | None) -> Outcome:
        """Set how a host is proven off; with it libvirt starts none of its VMs by itself."""
        return fence.fence(self, host, wanted)

    def evacuation_plan(self, host: str, *, will_not_boot: bool = False) -> EvacuationPlan:
        """Probe the others, then say what would become of the VMs of a lost host."""
        return evacuate.plan(self, host, will_not_boot=will_not_boot)[0]

    def evacuate(self, host: str, *, will_not_boot: bool = False) -> tuple[EvacuationPlan, Outcome]:
        """Prove a lost host off, then make its VMs anew elsewhere; never without the proof."""
        return evacuate.evacuate(self, host, will_not_boot=will_not_boot)
