"""Operations, tasks and steps, and the states they go through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.journal.verbs import worked_on


class OperationState(StrEnum):
    """done, undone and failed are final; interrupted waits for resume or undo."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    UNDONE = "undone"
    PARTLY = "partly"
    FAILED = "failed"


class TaskState(StrEnum):
    """One VM's part of an operation; ``failed`` needs an operator."""

    PENDING = "pending"
    RUNNING = "running"
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"
    FAILED = "failed"


FINAL_TASKS = frozenset({TaskState.DONE, TaskState.UNDONE, TaskState.FAILED})


class StepState(StrEnum):
    """planned → intent → done; undo: undo-intent → undone."""

    PLANNED = "planned"
    INTENT = "intent"
    DONE = "done"
    UNDO_INTENT = "undo-intent"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One journalled step: ``kind`` names its class, ``args`` rebuild it.

    ``host`` is where it acts; empty means the task's own host.
    """

    seq: int
    kind: str
    args: Mapping[str, object]
    state: StepState = StepState.PLANNED
    detail: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One VM's steps on one host, in order; a migration's are on ``host`` and its ``peer``. An
    evacuation's ``peer`` is the host that was lost.

    The outcome maps are applied to the ledger in the same commit that ends the task.
    """

    id: str
    operation: str
    vm_id: str
    vm: str
    host: str
    verb: str
    steps: tuple[StepRecord, ...]
    state: TaskState = TaskState.PENDING
    error: str = ""
    peer: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host it works on."""
        return worked_on(self.verb, self.host, self.peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """One operation. ``epoch`` is the store's at its start. Times are Unix seconds.

    ``worker`` names the process that works on it, or did when it died (``MACHINE:PID:…``).
    ``left_until``: a person interrupted it, and nobody goes on with it unasked before that time.
    """

    id: str
    kind: str
    state: OperationState
    epoch: int
    started_at: float
    ended_at: float | None = None
    by: str = ""
    summary: str = ""
    worker: str = ""
    left_until: float | None = None
