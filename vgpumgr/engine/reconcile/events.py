"""What `serve` tells while it works: one event for each thing that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.engine.running.outcome import VmOutcome
from vgpumgr.model.drift import Drift


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
    PLAN_MISSING = "plan-missing"
    DESKTOP_READY = "desktop-ready"
    DESKTOP_FAILED = "desktop-failed"
    POOL_WARNS = "pool-warns"
    POOL_WAITS = "pool-waits"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
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


Emit = Callable[[Event], None]


def drift_event(drift: Drift, *, ended: bool) -> Event:
    """A difference that is new, or over."""
    return Event(
        kind=EventKind.DRIFT_ENDED if ended else EventKind.DRIFT,
        host=drift.host,
        vm=drift.vm,
        gpu=drift.gpu,
        drift=str(drift.kind),
        subject=drift.subject,
        text=f"resolved: {drift.text}" if ended else drift.text,
        next="" if ended else drift.next,
    )


def task_event(outcome: VmOutcome, *, ended: bool) -> Event:
    """How a task stands after we went on with it."""
    why = f": {outcome.error}" if outcome.error else ""
    return Event(
        kind=EventKind.TASK_ENDED if ended else EventKind.TASK_WAITS,
        host=outcome.host,
        vm=outcome.vm,
        state=str(outcome.state),
        text=f"{outcome.verb} of {outcome.vm} is {outcome.state}{why}",
    )
