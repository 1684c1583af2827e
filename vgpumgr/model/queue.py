"""The queue: the ledger's entries, the scheduler's input, and its decision.

Times are Unix seconds, durations seconds, memory MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from vgpumgr.model.vm import Terms, VmSpec

if TYPE_CHECKING:
    from vgpumgr.model.placement import Placed


class QueueState(StrEnum):
    """waiting → running → ended; a preempted one waits again. What is closed stays as history."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"
    DELETED = "deleted"


OPEN_QUEUE_STATES = frozenset({QueueState.WAITING, QueueState.RUNNING})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingVm:
    """A VM that wants to start, ``since`` when."""

    vm: VmSpec
    since: float
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningVm:
    """A VM that has its place, ``since`` when."""

    placed: Placed
    since: float
    terms: Terms = field(default_factory=Terms)

    @property
    def vm(self) -> VmSpec:
        """What was asked for."""
        return self.placed.request

    @property
    def ends_by(self) -> float | None:
        """When it will have ended at the latest; None where nobody knows."""
        return None if self.terms.runtime_s is None else self.since + self.terms.runtime_s


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """How a queue is worked; the same for all fleets and loads.

    ``aging_s``: who waited so long counts as one class of priority (100) higher, and so on, so
    nobody starves. ``overdue_s``: who waited so long comes before those of the same class who have
    not, who waited twice as long before these, and so on. ``heads``: for how many of those that
    wait longest room is kept. ``unknown_s``: how long a VM is taken to run of which nobody knows.
    ``restart_s`` is the work, in seconds of the VM, that an eviction costs beside what it had done.
    ``kept_for_short`` is the share of the fleet that VMs may not fill that run longer than
    ``short_s``, or nobody knows how long.
    """

    aging_s: float = 86_400.0
    overdue_s: float = 14_400.0
    heads: int = 1
    unknown_s: float = 3_600.0
    restart_s: float = 300.0
    short_s: float = 3_600.0
    kept_for_short: float = 0.0


class WaitReason(StrEnum):
    """Why a VM waits; stable words."""

    QUOTA = "quota"
    LICENCE = "licence"
    AFTER = "after"
    TOGETHER = "together"
    ROOM = "room"
    HELD_FOR_OTHERS = "held-for-others"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStart:
    """A VM that starts now where ``placed`` says, after the spot VMs ``preempts`` were stopped."""

    waiting: WaitingVm
    placed: Placed
    preempts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomReservation:
    """Room on ``host`` that is kept for the VM ``name``.

    ``by`` is when it is there at the latest, ``ends`` the VMs that must have ended; ``by`` is None
    where nobody knows how long one of these runs.
    """

    name: str
    host: str
    by: float | None
    ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A VM that does not start now: its position (1 is next), and one line that says why.

    ``facts`` are the line's names and numbers.
    """

    waiting: WaitingVm
    position: int
    why: WaitReason
    text: str
    reservation: RoomReservation | None = None
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent:
    """Something that operators want to hear of, as one line.

    ``code``: ``started``, ``preempted``, ``reserved``, ``never``.
    """

    code: str
    vm: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDecision:
    """What to do now: ``starts`` in that order; everything else waits, by position."""

    starts: tuple[QueueStart, ...]
    waits: tuple[Wait, ...]
    reservations: tuple[RoomReservation, ...] = ()
    events: tuple[QueueEvent, ...] = ()
