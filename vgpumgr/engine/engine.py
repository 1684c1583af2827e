"""The engine: every use case that changes the fleet, in one direction: plan, reserve, execute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from vgpumgr.engine import layouts, leftovers, reservations, returning
from vgpumgr.engine.changes import refuse_impossible, refuse_restart, refuse_unreached
from vgpumgr.engine.execute import Progress
from vgpumgr.engine.observe import Observation, observe
from vgpumgr.engine.opening import Opening
from vgpumgr.engine.operations import Operations
from vgpumgr.engine.outcome import Outcome
from vgpumgr.engine.planning import make_plan, reached
from vgpumgr.engine.preflight import check_images
from vgpumgr.engine.refusal import no_placement
from vgpumgr.engine.view import LedgerView, read_view
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.journal import Refusal
from vgpumgr.model.layout import LayoutPlan, LayoutSpec
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.plan import ActionKind, Plan
from vgpumgr.model.ports import Clock, Hosts, Lanes, Ledger
from vgpumgr.model.vm import PlacementPolicy, VmRecord, VmSpec, VmState

# How often apply plans anew when somebody else was faster.
PLAN_ATTEMPTS = 5

# A start or stop that was cut off is not gone on with: planning sees what runs.
RESUMED_BY_APPLY = frozenset({"create", "delete", "change"})


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Use cases over a ledger and its hosts. ``stop`` is set by the first Ctrl-C."""

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    new_uuid: Callable[[], str]
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST
    stop: threading.Event = field(default_factory=threading.Event)
    progress: Progress = _silent

    # -- reading -------------------------------------------------------------------------------

    def refresh(self, names: Iterable[str] = ()) -> Observation:
        """Probe the named hosts (all without names) and keep what they show."""
        wanted = set(names)
        records = [h for h in self.ledger.hosts() if not wanted or h.name in wanted]
        return observe(records, self.hosts, self.ledger, self.lanes, self.clock)

    def view(self) -> LedgerView:
        """One reading of the ledger."""
        return read_view(self.ledger)

    def plan(self, desired: Sequence[VmSpec]) -> Plan:
        """Probe, then say what apply would do."""
        return self._plan(desired)[0]

    def domain_xml(self, name: str) -> str:
        """A VM's XML as libvirt on its host has it."""
        vm = self.ledger.vm(name)
        return self.hosts.open(self.ledger.host(vm.host)).domains.xml(vm.name)

    def layout_plan(self, specs: Sequence[LayoutSpec] | None) -> LayoutPlan:
        """Probe, then say what applying these layouts (None: the last applied) would do."""
        return self._layout_plan(specs)[0]

    def layout_export(self, hosts: Sequence[str] = ()) -> tuple[LayoutSpec, ...]:
        """Probe, then write down how GPUs are partitioned."""
        self.refresh(hosts)
        return layouts.export(self.view(), hosts)

    # -- changing ------------------------------------------------------------------------------

    def layout_apply(self, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, Outcome]:
        """Plan, refuse what stands in a guest's way (Conflict), execute, and look again.

        A change that was cut earlier is overtaken: a plan is made from any half-way state.
        """
        for attempt in range(PLAN_ATTEMPTS):
            wanted, view = self._layout_plan(specs)
            layouts.refuse(wanted)
            leftovers.close_layouts(self.ledger, layouts.meant(view, specs), self.clock.now())
            start = layouts.reservation(wanted, view, specs, self._opening())
            try:
                outcome = self._operations.begin(start)
            except StaleGeneration:
                if attempt == PLAN_ATTEMPTS - 1:
                    raise
                continue
            self.refresh({change.host for change in wanted.gpus})
            left = layouts.plan(self.view(), specs).gpus
            return wanted, outcome.less({(gpu.host, layouts.named(gpu)): gpu for gpu in left})
        raise AssertionError("unreachable")

    def apply(
        self, desired: Sequence[VmSpec], *, partial: bool = False, restart: bool = False
    ) -> tuple[Plan, Outcome]:
        """Plan, reserve all or nothing, execute. NoPlacement or Conflict change nothing."""
        before = self._operations.finish_leftovers(
            {spec.name: spec for spec in desired}, RESUMED_BY_APPLY
        )
        ready = [spec for spec in desired if spec.name not in before.waiting]
        for attempt in range(PLAN_ATTEMPTS):
            plan, view = self._plan(ready)
            self._refuse(plan, view, partial=partial, restart=restart)
            if not plan.changes:
                return plan, before
            try:
                return plan, before.then(self._carry_out(plan, view))
            except StaleGeneration:
                if attempt == PLAN_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def delete(self, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
        """Delete VMs. A running one needs ``force``; an interrupted deletion goes on.

        A creation that never ended is taken back: its VM was never there to be deleted.
        """
        wanted = {name: self.ledger.vm(name).spec for name in names}
        before = self._operations.finish_leftovers(wanted, {"delete"})
        if not force:
            self._refuse_running(self._alive(wanted))
        self._operations.take_back(
            {vm.name for vm in self._alive(wanted) if vm.state is VmState.RESERVED}
        )
        vms = self._alive(wanted)
        leftovers.refuse_unfinished(self.ledger, vms)
        start = reservations.deletion(
            vms,
            self.view(),
            self._opening(),
            keep_disks=keep_disks,
        )
        return before.then(self._operations.begin(start))

    def start(self, names: Sequence[str]) -> Outcome:
        """Start VMs, their devices first, and what else their hosts lost."""
        self.refresh({self.ledger.vm(name).host for name in names})
        returning.require_partitioned(self.view(), names)
        return self._power(names, "start")

    def stop_vms(self, names: Sequence[str], *, force: bool, timeout_s: float) -> Outcome:
        """Stop VMs: ask the guest, or with ``force`` pull the plug."""
        return self._power(names, "stop", force=force, timeout_s=timeout_s)

    def reboot(self, names: Sequence[str], *, force: bool) -> Outcome:
        """Reboot VMs."""
        return self._power(names, "reboot", force=force)

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted operation: look first, then go on."""
        return self._operations.resume(self.ledger.operation(operation).id)

    def undo(self, operation: str) -> Outcome:
        """Take back the unfinished creations of an operation; what is done stays."""
        return self._operations.undo(self.ledger.operation(operation).id)

    # -- inside --------------------------------------------------------------------------------

    def _plan(self, desired: Sequence[VmSpec]) -> tuple[Plan, LedgerView]:
        """The plan with the reading it was made from: its generations referee the reservation."""
        warnings = self._probe_all()
        view = self.view()
        return make_plan(view, desired, self.policy, warnings), view

    def _layout_plan(self, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, LedgerView]:
        warnings = self._probe_all()
        view = self.view()
        return layouts.plan(view, specs, warnings), view

    def _probe_all(self) -> list[str]:
        """A line for every host that could not be probed."""
        return [f"{host}: {error.message}" for host, error in self.refresh().failed.items()]

    def _refuse(self, plan: Plan, view: LedgerView, *, partial: bool, restart: bool) -> None:
        for action in plan.actions:
            if action.kind is ActionKind.CHANGE:
                refuse_impossible(action)
                refuse_unreached(action, reached(view).hosts)
        if not restart:
            refuse_restart(plan.actions)
        if not partial:
            starting = [each.vm.name for each in plan.actions if each.kind is ActionKind.START]
            returning.require_partitioned(view, starting)
        if plan.unplaced:
            self.ledger.refuse([self._refusal(each) for each in plan.unplaced])
        if plan.unplaced and not (partial and plan.actions):
            raise no_placement(plan.unplaced)

    def _refusal(self, refused: NotPlaced) -> Refusal:
        return Refusal(
            vm=refused.request.name,
            at=self.clock.now(),
            spec=to_plain(refused.request),
            reasons=tuple(reason.text for reason in refused.reasons),
        )

    def _carry_out(self, plan: Plan, view: LedgerView) -> Outcome:
        placed = [action.placed for action in plan.actions if action.placed]
        check_images(placed, {host.name: host for host in view.hosts}, self.hosts, self.lanes)
        start = reservations.application(plan, view, self._opening())
        return self._operations.begin(start)

    def _power(
        self, names: Sequence[str], verb: str, *, force: bool = False, timeout_s: float = 60.0
    ) -> Outcome:
        vms = [self.ledger.vm(name) for name in names]
        leftovers.refuse_unfinished(self.ledger, vms)
        start = reservations.power(
            vms,
            self.view(),
            self._opening(),
            verb=verb,
            force=force,
            timeout_s=timeout_s,
        )
        return self._operations.begin(start)

    def _alive(self, names: Collection[str]) -> list[VmRecord]:
        """The VMs of these names that are not on their way out."""
        found = [vm for vm in self.ledger.vms() if vm.name in names]
        return [vm for vm in found if vm.state is not VmState.DELETING]

    def _refuse_running(self, vms: Sequence[VmRecord]) -> None:
        if vms:
            self.refresh({vm.host for vm in vms})
            reservations.refuse_running(vms, self.view())

    def _opening(self) -> Opening:
        return Opening(self.ledger.epoch(), self.new_uuid, self.clock.now())

    @property
    def _operations(self) -> Operations:
        return Operations(self.ledger, self.hosts, self.lanes, self.clock, self.stop, self.progress)
