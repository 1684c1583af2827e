"""The engine: every use case that changes the fleet, in one direction: plan, reserve, execute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from vgpumgr.engine import reservations
from vgpumgr.engine.changes import refuse_impossible, refuse_restart
from vgpumgr.engine.execute import Executor, Progress
from vgpumgr.engine.observe import Observation, observe
from vgpumgr.engine.outcome import Outcome
from vgpumgr.engine.planning import make_plan
from vgpumgr.engine.preflight import check_images
from vgpumgr.engine.view import LedgerView, read_view
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import (
    Conflict,
    HostUnreachable,
    NoPlacement,
    StaleGeneration,
    VgpumgrError,
)
from vgpumgr.model.journal import FINAL_TASKS, Refusal, Reservation, TaskRecord
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.plan import ActionKind, Plan
from vgpumgr.model.ports import Clock, Hosts, Lanes, Ledger
from vgpumgr.model.vm import PlacementPolicy, VmSpec

# How often apply plans anew when somebody else was faster.
PLAN_ATTEMPTS = 5


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
        warnings = [f"{host}: {error.message}" for host, error in self.refresh().failed.items()]
        return make_plan(self.view(), desired, self.policy, warnings)

    def domain_xml(self, name: str) -> str:
        """A VM's XML as libvirt on its host has it."""
        vm = self.ledger.vm(name)
        return self.hosts.open(self.ledger.host(vm.host)).domains.xml(vm.name)

    # -- changing ------------------------------------------------------------------------------

    def apply(
        self, desired: Sequence[VmSpec], *, partial: bool = False, restart: bool = False
    ) -> tuple[Plan, Outcome]:
        """Plan, reserve all or nothing, execute. NoPlacement or Conflict change nothing."""
        self._finish_leftovers({spec.name for spec in desired})
        for attempt in range(PLAN_ATTEMPTS):
            plan = self.plan(desired)
            self._refuse(plan, partial=partial, restart=restart)
            if not plan.changes:
                return plan, Outcome()
            try:
                return plan, self._carry_out(plan)
            except StaleGeneration:
                if attempt == PLAN_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def delete(self, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
        """Delete VMs. A running one needs ``force``."""
        self._finish_leftovers(set(names), verbs=frozenset({"delete"}))
        known = {vm.name for vm in self.ledger.vms()}
        vms = [self.ledger.vm(name) for name in names if name in known or len(names) == 1]
        reservations.refuse_unfinished(vms)
        view = self.view()
        if not force:
            reservations.refuse_running(vms, view)
        start = reservations.deletion(
            vms, view, self.ledger.epoch(), self.new_uuid, self.clock.now(), keep_disks=keep_disks
        )
        return self._reserve_and_run(start)

    def start(self, names: Sequence[str]) -> Outcome:
        """Start VMs, their devices first."""
        return self._power(names, "start")

    def stop_vms(self, names: Sequence[str], *, force: bool, timeout_s: float) -> Outcome:
        """Stop VMs: ask the guest, or with ``force`` pull the plug."""
        return self._power(names, "stop", force=force, timeout_s=timeout_s)

    def reboot(self, names: Sequence[str], *, force: bool) -> Outcome:
        """Reboot VMs."""
        return self._power(names, "reboot", force=force)

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted operation: look first, then go on."""
        found = self.ledger.operation(operation)
        return self._run(found.id, self._claimed(found.id))

    def undo(self, operation: str) -> Outcome:
        """Take back the unfinished creations of an operation; what is done stays."""
        found = self.ledger.operation(operation)
        tasks = reservations.to_undo(self._claimed(found.id))
        return self._run(found.id, tasks)

    # -- inside --------------------------------------------------------------------------------

    def _refuse(self, plan: Plan, *, partial: bool, restart: bool) -> None:
        for action in plan.actions:
            if action.kind is ActionKind.CHANGE:
                refuse_impossible(action)
        if not restart:
            refuse_restart(plan.actions)
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

    def _carry_out(self, plan: Plan) -> Outcome:
        view = self.view()
        placed = [action.placed for action in plan.actions if action.placed]
        check_images(placed, {host.name: host for host in view.hosts}, self.hosts, self.lanes)
        start = reservations.application(
            plan, view, self.ledger.epoch(), self.new_uuid, self.clock.now()
        )
        return self._reserve_and_run(start)

    def _power(
        self, names: Sequence[str], verb: str, *, force: bool = False, timeout_s: float = 60.0
    ) -> Outcome:
        vms = [self.ledger.vm(name) for name in names]
        reservations.refuse_unfinished(vms)
        start = reservations.power(
            vms,
            self.view(),
            self.ledger.epoch(),
            self.new_uuid,
            self.clock.now(),
            verb=verb,
            force=force,
            timeout_s=timeout_s,
        )
        return self._reserve_and_run(start)

    def _reserve_and_run(self, start: Reservation) -> Outcome:
        if not start.tasks:
            return Outcome()
        self.ledger.reserve(start)
        self.ledger.claim_operation(start.operation.id)
        return self._run(start.operation.id, start.tasks)

    def _run(self, operation: str, tasks: Sequence[TaskRecord]) -> Outcome:
        executor = Executor(
            self.ledger, self.hosts, self.lanes, self.clock, self.stop, self.progress
        )
        return executor.run(operation, tasks, self.ledger.hosts())

    def _claimed(self, operation: str) -> tuple[TaskRecord, ...]:
        if not self.ledger.claim_operation(operation):
            raise Conflict(
                f"operation {operation[:8]} is running",
                why="another process is working on it",
                next=f"vgpumgr operation show {operation[:8]}",
            )
        return self.ledger.tasks(operation)

    def _finish_leftovers(
        self, names: set[str], verbs: frozenset[str] = frozenset({"create", "delete", "change"})
    ) -> None:
        """Operations that a crash or an interruption left behind, if they touch these VMs."""
        for operation in reversed(self.ledger.operations(open_only=True)):
            tasks = [t for t in self.ledger.tasks(operation.id) if t.state not in FINAL_TASKS]
            if any(task.vm in names and task.verb in verbs for task in tasks):
                self._run(operation.id, self._claimed(operation.id)).raise_for_failure()


def no_placement(unplaced: Sequence[NotPlaced], most: int = 8) -> VgpumgrError:
    """The error for requests that fit nowhere; unreachable hosts alone make it exit 6."""
    first = unplaced[0]
    texts = [reason.text for reason in first.reasons[:most]]
    rest = len(first.reasons) - len(texts)
    lines = [*texts, *([f"and {rest} more GPUs or hosts"] if rest > 0 else [])]
    others = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
    kind = (
        HostUnreachable
        if first.reasons and all("not reached" in reason.text for reason in first.reasons)
        else NoPlacement
    )
    return kind(
        f"{first.request.name}{others} cannot be placed",
        why="; ".join(lines) or "no host is enrolled",
        next=f"vgpumgr explain -f FILE --vm {first.request.name}",
    )
