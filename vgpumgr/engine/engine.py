"""The engine: every use case that looks at the fleet or changes it, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.engine import drift
from vgpumgr.engine.adoption.candidate import Findings
from vgpumgr.engine.amnesia import thawing
from vgpumgr.engine.defrag import DefragPlan, Wanted
from vgpumgr.engine.draining import Choice
from vgpumgr.engine.evacuation.plan import EvacuationPlan
from vgpumgr.engine.heal.report import Chosen, Healed, HealPlan
from vgpumgr.engine.migration import MovePlan
from vgpumgr.engine.reserving.shelving import Stop
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import (
    adopt,
    apply,
    defrag,
    delete,
    drain,
    enrol,
    evacuate,
    fence,
    heal,
    layout,
    maintenance,
    move,
    power,
    queue,
    remove,
    shelve,
)
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.fence import Fence
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import LayoutPlan, LayoutSpec
from vgpumgr.model.plan import Plan
from vgpumgr.model.queue import Turn
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Session):
    """A session with the use cases as its methods: what front ends and tests call."""

    # -- looking -------------------------------------------------------------------------------

    def domain_xml(self, name: str) -> str:
        """A VM's XML as libvirt on its host has it."""
        vm = self.ledger.vm(name)
        return self.host(vm.host).domains.xml(vm.name)

    def drift(self, hosts: Sequence[str] = ()) -> DriftReport:
        """Probe, and name every difference between the ledger and these hosts (all without)."""
        return drift.survey(self, hosts)

    def plan(self, desired: Sequence[VmSpec]) -> Plan:
        """Probe, then say what apply would do."""
        return apply.plan(self, desired)[0]

    def move_plan(
        self, name: str, to: str, *, cold: bool = False, timeout_s: float | None = None
    ) -> MovePlan:
        """Probe both hosts, then say how a VM would move, with all that keeps it from it."""
        return move.plan(self, name, to, cold=cold, timeout_s=timeout_s)[0]

    def layout_plan(self, specs: Sequence[LayoutSpec] | None) -> LayoutPlan:
        """Probe, then say what applying these layouts (None: the last applied) would do."""
        return layout.plan(self, specs)[0]

    def layout_export(self, hosts: Sequence[str] = ()) -> tuple[LayoutSpec, ...]:
        """Probe, then write down how GPUs are partitioned."""
        return layout.export(self, hosts)

    def adoptable(self, hosts: Sequence[str] = ()) -> Findings:
        """Probe, and say what of other hands' work could be adopted, and why the rest cannot."""
        return adopt.find(self, hosts)[0]

    def heal_plan(self, chosen: Chosen) -> HealPlan:
        """Probe, and say what ``heal`` would do about every difference, and what an operator."""
        return heal.plan(self, chosen)

    def queue_outlook(self) -> Turn:
        """What the queue's next turn would do, by what was seen last; nothing is looked at."""
        return queue.outlook(self)

    # -- changing ------------------------------------------------------------------------------

    def apply(
        self, desired: Sequence[VmSpec], *, partial: bool = False, restart: bool = False
    ) -> tuple[Plan, Outcome]:
        """Plan, reserve all or nothing, execute. NoPlacement or Conflict change nothing."""
        return apply.apply(self, desired, partial=partial, restart=restart)

    def delete(self, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
        """Delete VMs. A running one needs ``force``; an interrupted deletion goes on."""
        return delete.delete(self, names, keep_disks=keep_disks, force=force)

    def start(self, names: Sequence[str]) -> Outcome:
        """Start VMs, their devices first, and what else their hosts lost."""
        return power.start(self, names)

    def stop_vms(self, names: Sequence[str], *, force: bool, timeout_s: float) -> Outcome:
        """Stop VMs: ask the guest, or with ``force`` pull the plug."""
        return power.power(self, names, "stop", force=force, timeout_s=timeout_s)

    def shelve(self, names: Sequence[str], stop: Stop) -> Outcome:
        """Stop VMs and give back what they hold; their disks are kept."""
        return shelve.shelve(self, names, stop)

    def reboot(self, names: Sequence[str], *, force: bool) -> Outcome:
        """Reboot VMs."""
        return power.power(self, names, "reboot", force=force)

    def migrate(
        self, name: str, to: str, *, cold: bool = False, timeout_s: float | None = None
    ) -> Outcome:
        """Move a VM to another host, running if it can; what keeps it from it is raised."""
        return move.migrate(self, name, to, cold=cold, timeout_s=timeout_s)

    def layout_apply(self, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, Outcome]:
        """Plan, refuse what stands in a guest's way (Conflict), execute, and look again."""
        return layout.apply(self, specs)

    def adopt(self, host: str, names: Sequence[str], *, tenant: str = "default") -> Outcome:
        """Bring domains of other hands under management as they are; Conflict says what keeps one
        from it.
        """
        return adopt.adopt(self, host, names, tenant)

    def adopt_layout(self, host: str) -> tuple[LayoutPlan, Outcome]:
        """Declare how a host's GPUs are partitioned now, without changing any."""
        return adopt.adopt_layout(self, host)

    # -- hosts that come and go ----------------------------------------------------------------

    def enrol(self, record: HostRecord, *, install: bool) -> Outcome:
        """Bring a host whose key is pinned into the fleet, with its helper installed or not."""
        return enrol.enrol(self, record, install=install)

    def remove_host(self, host: str) -> remove.Removed:
        """Take a host out, and all that is ours off it; Conflict while it is in use."""
        return remove.remove(self, host)

    def forget_host(self, host: str) -> None:
        """Take a host out that is gone for good, without asking it."""
        remove.forget(self, host)

    # -- hosts emptied, and hosts lost ---------------------------------------------------------

    def defrag_plan(self, wanted: Wanted) -> tuple[DefragPlan, tuple[str, ...]]:
        """Probe, and say which moves would make room; a line for each host that was left out."""
        return defrag.plan(self, wanted)

    def defrag(self, planned: DefragPlan) -> defrag.Defragmented:
        """Carry planned moves out, one after the other; the first that fails ends it."""
        return defrag.apply(self, planned)

    def end_moves(self) -> Outcome:
        """End the moves that were cut, whoever began them."""
        return defrag.go_on(self)

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

    def heal(self, chosen: Chosen) -> Healed:
        """Do what is ours to do about these differences, then look again."""
        return heal.apply(self, chosen)

    def lift(self, gpu: str) -> None:
        """Use a quarantined GPU (our id) again; Conflict where it does not look whole."""
        heal.lift(self, gpu)

    # -- a ledger that went back in time -------------------------------------------------------

    def thaw_plan(self, *, forget: Sequence[str] = ()) -> thawing.Thaw:
        """Probe every host, and say what they know that the ledger does not."""
        return thawing.plan(self, forget)

    def thaw(self, *, without: Sequence[str] = (), forget: Sequence[str] = ()) -> thawing.Thaw:
        """Take that in, and allocate again in a new epoch; see :func:`thawing.thaw`."""
        return thawing.thaw(self, without=without, forget=forget)

    # -- what was cut --------------------------------------------------------------------------

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted operation (id or unique prefix): look first, then go on."""
        return operations.resume(self, operation)

    def undo(self, operation: str) -> Outcome:
        """Take back the unfinished creations and moves of an operation; what is done stays."""
        return operations.undo(self, operation)
