"""Guests as `serve` looks after them: when each is due, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.vms import guest_checks, guest_readiness
from vgpumgr.model.guest import GuestPhase, GuestRecord
from vgpumgr.model.vm import VmRecord

# No host is called so.
GUEST_THREAD = "guests:"
_HOST = "guests of {}"
# Guests take minutes for their first boot.
LOOK_S = 10.0


class GuestTask:
    """Looks at guests that are due, the longest waiting first; a host that could not be asked is
    left alone ever longer.
    """

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit
        self._due: dict[str, float] = {}
        self._look_at = context.clock.monotonic()

    def take(self, lane: CycleThread) -> bool:
        """A whole turn, unless another controller has it; has a guest changed?"""
        context = self._context
        if context.clock.monotonic() < self._look_at:
            return False
        self._look_at = context.clock.monotonic() + LOOK_S
        due = self._due_now()
        if not due or not context.ledger.claim(GUEST_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            found = guest_checks.turn(own, due)
        finally:
            context.ledger.release(GUEST_THREAD)
        for host, _ in found.failed:
            self._patience.failed(_HOST.format(host))
        after = {record.vm_id: record for _, record in found.changed}
        for vm in due:
            if vm.id in found.looked:
                self._patience.done(_HOST.format(vm.host))
                self._set_due(vm, after.get(vm.id) or vm.guest)
        for vm, record in found.changed:
            self._tell(vm, record)
        return bool(found.changed)

    def _due_now(self) -> list[VmRecord]:
        every = guest_checks.with_checks(self._context)
        self._due = {vm.id: self._due.get(vm.id, 0.0) for vm in every}
        now = self._context.clock.monotonic()
        found = [
            vm
            for vm in every
            if self._due[vm.id] <= now and self._patience.ready(_HOST.format(vm.host))
        ]
        return sorted(found, key=lambda vm: self._due[vm.id])

    def _set_due(self, vm: VmRecord, record: GuestRecord | None) -> None:
        known = record or GuestRecord(vm_id=vm.id)
        pause = guest_readiness.pause_s(known, self._context.clock.now())
        self._due[vm.id] = self._context.clock.monotonic() + pause

    def _tell(self, vm: VmRecord, record: GuestRecord) -> None:
        before = vm.guest.phase if vm.guest is not None else GuestPhase.UNKNOWN
        if record.phase is before:
            return
        if record.phase is GuestPhase.READY:
            text = f"the guest of {vm.name} is ready"
            self._emit(
                ControllerEvent(kind=EventKind.GUEST_READY, vm=vm.name, host=vm.host, text=text)
            )
        elif record.phase is GuestPhase.FAILED:
            text = f"the guest of {vm.name} failed: {record.why}"
            self._emit(
                ControllerEvent(
                    kind=EventKind.GUEST_FAILED,
                    vm=vm.name,
                    host=vm.host,
                    text=text,
                    next=f"vgpumgr vm show {vm.name}",
                )
            )
