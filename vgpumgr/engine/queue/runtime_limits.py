"""`runtime:` of VMs of the queue: told a while before it is over, then stopped.

What is told is kept by the process that told it: after another has come it is told again, and the
VM runs on for a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.users_at_work import logged_in
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.formats import clock, counted
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmState, duration_text

# The notice is a tenth of the runtime, but no less than a minute and no more than ten.
NOTICE_S, LEAST_NOTICE_S, NOTICE_SHARE = 600.0, 60.0, 0.1


@dataclass(frozen=True, slots=True)
class LimitedVm:
    """A VM that runs for no longer than until ``ends`` (Unix seconds)."""

    entry: QueueEntry
    vm: VmRecord
    runtime_s: float
    ends: float

    @property
    def notice_s(self) -> float:
        """How long before its end it is told."""
        return max(LEAST_NOTICE_S, min(NOTICE_S, self.runtime_s * NOTICE_SHARE))

    @property
    def over(self) -> str:
        """Why it is stopped."""
        return f"its runtime of {duration_text(self.runtime_s)} is over"

    def to_tell(self, now: float, told: Mapping[str, float]) -> bool:
        """Is it time to tell it, and was it not told?"""
        return now >= self.ends - self.notice_s and self.entry.id not in told

    def to_stop(self, now: float, told: Mapping[str, float]) -> bool:
        """Is its time over, and was it told long enough ago?"""
        return now >= max(self.ends, told.get(self.entry.id, now) + LEAST_NOTICE_S)


def limited(view: LedgerView, busy: Collection[str]) -> Iterator[LimitedVm]:
    """The VMs of the queue that run and have a runtime, on hosts that answer; none with an
    operation (``busy``, by the VM's id), none that its user stopped.
    """
    seen, vms = observed_domains(view), {vm.id: vm for vm in view.vms}
    for entry in view.queue:
        vm = vms.get(entry.vm_id)
        runtime_s = vm.spec.queue.runtime_s if vm and vm.spec.queue else None
        if vm is None or runtime_s is None or entry.state is not QueueState.RUNNING:
            continue
        wanted = vm.state is VmState.ACTIVE and vm.running and not vm.definition
        runs = (vm.host, vm.name) in seen.running and vm.host not in seen.resting
        if wanted and runs and vm.id not in busy:
            yield LimitedVm(entry, vm, runtime_s, (entry.started_at or entry.since) + runtime_s)


def tell(
    context: EngineContext, found: Collection[LimitedVm], told: dict[str, float]
) -> dict[str, str]:
    """Write down that these end soon, and keep when; a sentence for each that is told now, by name.
    Users who are logged in are named.
    """
    now = context.clock.now()
    soon = [each for each in found if each.to_tell(now, told)]
    if not soon:
        return {}
    users = logged_in(context, [each.vm for each in soon if each.vm.spec.agent])
    said = {}
    for each in soon:
        at = clock(max(each.ends, now + LEAST_NOTICE_S))
        some = users.get(each.vm.name)
        more = f"; {counted(some, 'user')} logged in" if some else ""
        text = f"it is stopped at {at}: {each.over} then{more}"
        state = QueueState.RUNNING
        try:
            context.ledger.move_queue(
                [QueueMoved(entry=each.entry.id, before=state, state=state, why=text)]
            )
        except StaleGeneration:
            continue  # it has left the queue
        told[each.entry.id] = now
        said[each.vm.name] = text
    return said


def overdue(
    found: Collection[LimitedVm], now: float, told: Mapping[str, float]
) -> tuple[list[VmRecord], list[QueueMoved]]:
    """The VMs that are stopped now, and the ends of their entries."""
    late = [each for each in found if each.to_stop(now, told)]
    moves = [
        QueueMoved(
            entry=each.entry.id, before=QueueState.RUNNING, state=QueueState.ENDED, why=each.over
        )
        for each in late
    ]
    return [each.vm for each in late], moves
