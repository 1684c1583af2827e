"""Events of `serve`: one for each change, told once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.model.drift import Drift, DriftReport
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.ledger import Ledger


class EventKind(StrEnum):
    """Stable words for programs; docs/serve.md says what each means."""

    SERVE_STARTED = "serve-started"
    SERVE_ENDED = "serve-ended"
    HOST_REACHED = "host-reached"
    HOST_UNREACHABLE = "host-unreachable"
    HOST_STUCK = "host-stuck"
    HOST_UNSTUCK = "host-unstuck"
    HOST_REBOOTED = "host-rebooted"
    HOST_RESTORED = "host-restored"
    HOST_WAITS = "host-waits"
    HOST_DRAINED = "host-drained"
    HOST_EVACUATED = "host-evacuated"
    GPU_HEALTH = "gpu-health"
    POWER = "power"
    TASK_ENDED = "task-ended"
    TASK_WAITS = "task-waits"
    OPERATION_ENDED = "operation-ended"
    NEEDS_OPERATOR = "needs-operator"
    DRIFT = "drift"
    DRIFT_ENDED = "drift-ended"
    QUEUE_STARTED = "queue-started"
    QUEUE_WAITS = "queue-waits"
    QUEUE_PREEMPTED = "queue-preempted"
    QUEUE_ENDED = "queue-ended"
    QUEUE_RUNTIME_ENDS = "queue-runtime-ends"
    QUEUE_OVERDUE = "queue-overdue"
    PLAN_MISSING = "plan-missing"
    DESKTOP_READY = "desktop-ready"
    DESKTOP_FAILED = "desktop-failed"
    POOL_WARNS = "pool-warns"
    POOL_WAITS = "pool-waits"
    PROFILE_DISK = "profile-disk"
    PROFILE_DISK_WAITS = "profile-disk-waits"
    GROUP_SCALED = "group-scaled"
    GROUP_WAITS = "group-waits"
    USER_TOLD = "user-told"
    USER_NOT_TOLD = "user-not-told"
    TICKET_CONNECTED = "ticket-connected"
    TICKET_CLOSED = "ticket-closed"
    MOVED = "moved"
    MOVE_WAITS = "move-waits"
    FRAGMENTED = "fragmented"
    FRAGMENTED_ENDED = "fragmented-ended"
    TURN_FAILED = "turn-failed"
    LEDGER_FAILED = "ledger-failed"
    LEDGER_FROZEN = "ledger-frozen"
    LEDGER_THAWED = "ledger-thawed"
    TRAIL_UNSEALED = "trail-unsealed"
    BACKUP_MADE = "backup-made"
    BACKUP_FAILED = "backup-failed"
    BACKUP_OVERDUE = "backup-overdue"
    VM_UNLICENSED = "vm-unlicensed"
    VM_LICENSED = "vm-licensed"
    LICENCE_SHORT = "licence-short"
    LICENCE_SHORT_ENDED = "licence-short-ended"
    TELEMETRY_FAILED = "telemetry-failed"
    GUEST_READY = "guest-ready"
    GUEST_FAILED = "guest-failed"
    VM_BACKED_UP = "vm-backed-up"
    VM_BACKUP_FAILED = "vm-backup-failed"
    NOTIFICATION_FAILED = "notification-failed"
    WEBHOOK_FAILED = "webhook-failed"
    WEBHOOK_PAUSED = "webhook-paused"
    PURGED = "purged"
    PURGE_FAILED = "purge-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEvent:
    """One event. ``text`` is a sentence, ``next`` what to type where an operator can help.

    ``drift`` is the kind of a difference, ``state`` that of a task or an operation.
    """

    kind: EventKind
    text: str
    host: str = ""
    vm: str = ""
    gpu: str = ""
    operation: str = ""
    drift: str = ""
    subject: str = ""
    state: str = ""
    next: str = ""


Emit = Callable[[ControllerEvent], None]


def drift_event(drift: Drift, *, ended: bool) -> ControllerEvent:
    """A difference that is new, or over."""
    return ControllerEvent(
        kind=EventKind.DRIFT_ENDED if ended else EventKind.DRIFT,
        host=drift.host,
        vm=drift.vm,
        gpu=drift.gpu,
        drift=str(drift.kind),
        subject=drift.subject,
        text=f"resolved: {drift.text}" if ended else drift.text,
        next="" if ended else drift.next,
    )


def task_event(outcome: VmOutcome, *, ended: bool) -> ControllerEvent:
    """The event for a task that the controller resumed."""
    why = f": {outcome.error}" if outcome.error else ""
    return ControllerEvent(
        kind=EventKind.TASK_ENDED if ended else EventKind.TASK_WAITS,
        host=outcome.host,
        vm=outcome.vm,
        state=str(outcome.state),
        text=f"{outcome.verb} of {outcome.vm} is {outcome.state}{why}",
    )


Key = tuple[str, ...]


class KnownDrifts:
    """The drifts of a host that events have reported."""

    def __init__(self) -> None:
        self._told: dict[Key, Drift] = {}

    def __len__(self) -> int:
        return len(self._told)

    def update(
        self, report: DriftReport, withheld: Collection[Drift] = ()
    ) -> Iterator[ControllerEvent]:
        """Events for what is new and what is over; of ``withheld`` nothing new is told.

        Nothing is over that could not be read, or that an operation is working on.
        """
        silent = {_key(drift) for drift in withheld} - self._told.keys()
        found = {_key(drift): drift for drift in report.drifts}
        now = {key: drift for key, drift in found.items() if key not in silent}
        for key, drift in now.items():
            if key not in self._told:
                yield drift_event(drift, ended=False)
        kept: dict[Key, Drift] = {}
        for key, drift in self._told.items():
            if key in now:
                continue
            if report.not_read or drift.vm in report.skipped:
                kept[key] = drift
            else:
                yield drift_event(drift, ended=True)
        self._told = {**kept, **now}


def _key(drift: Drift) -> Key:
    return str(drift.kind), drift.vm, drift.gpu, drift.subject, drift.found


class LedgerState:
    """The states of the ledger that events have reported."""

    def __init__(self, ledger: Ledger, emit: Emit) -> None:
        self._ledger = ledger
        self._emit = emit
        self._failing = ""
        self.frozen = ""

    def tell_frozen(self) -> None:
        """A look may have shown that it is older than the hosts."""
        found = self._ledger.frozen()
        before, self.frozen = self.frozen, found.why if found else ""
        if self.frozen and not before:
            text = f"allocation is suspended: {self.frozen}"
            self._emit(
                ControllerEvent(kind=EventKind.LEDGER_FROZEN, text=text, next="vgpumgr store thaw")
            )
        elif before and not self.frozen:
            self._emit(
                ControllerEvent(kind=EventKind.LEDGER_THAWED, text="the ledger allocates again")
            )

    def works(self) -> None:
        """A round went well with it."""
        self._failing = ""

    def failed(self, error: LedgerError) -> None:
        """Told once; the round is tried again."""
        if str(error) != self._failing:
            self._failing = str(error)
            kind = EventKind.LEDGER_FAILED
            self._emit(
                ControllerEvent(kind=kind, text=f"{error.message}: {error.why}", next=error.next)
            )
