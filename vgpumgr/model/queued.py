"""The queue as the ledger keeps it: one entry per VM that asked to wait for room. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.terms import Terms
from vgpumgr.model.vm import VmSpec


class QueueState(StrEnum):
    """waiting → running → ended; a preempted one waits again. What is closed stays as history."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"
    DELETED = "deleted"


OPEN = frozenset({QueueState.WAITING, QueueState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A VM that waits, runs, or has ended. Times are Unix seconds.

    ``since`` is when it was asked for, and stays when it is ``preempted`` (how often so far).
    ``vm_id`` is its VM's: set while it runs, and of one that waits where a shelved VM has its
    disks. ``why`` is what happened to it last.
    """

    id: str
    vm: VmSpec
    state: QueueState
    since: float
    started_at: float | None = None
    closed_at: float | None = None
    vm_id: str = ""
    preempted: int = 0
    why: str = ""

    @property
    def name(self) -> str:
        """The VM's name."""
        return self.vm.name

    @property
    def terms(self) -> Terms:
        """On what terms it waits and runs."""
        return self.vm.queue or Terms()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMoved:
    """An entry goes from one state into another; refused where it is not in ``before`` any more.

    ``vm_id`` is set where it starts to run.
    """

    entry: str
    before: QueueState
    state: QueueState
    vm_id: str = ""
    why: str = ""
    preempted: bool = False
