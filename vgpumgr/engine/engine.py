"""The engine: every use case that looks at the fleet or changes it, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.engine import drift, operations
from vgpumgr.engine.migration import MovePlan
from vgpumgr.engine.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import apply, delete, layout, move, power
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.layout import LayoutPlan, LayoutSpec
from vgpumgr.model.plan import Plan
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

    # -- what was cut --------------------------------------------------------------------------

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted operation (id or unique prefix): look first, then go on."""
        return operations.resume(self, operation)

    def undo(self, operation: str) -> Outcome:
        """Take back the unfinished creations and moves of an operation; what is done stays."""
        return operations.undo(self, operation)
