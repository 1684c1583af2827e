"""What waits for room, what runs on it, and what a turn of the queue answers. Plain values.

Times are Unix seconds, durations seconds, memory MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.placement import Placed
from vgpumgr.model.terms import Terms
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A VM that wants to start, ``since`` when."""

    vm: VmSpec
    since: float
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
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
class Rules:
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


class Why(StrEnum):
    """Why a VM waits; stable words."""

    QUOTA = "quota"
    AFTER = "after"
    TOGETHER = "together"
    ROOM = "room"
    HELD_FOR_OTHERS = "held-for-others"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A VM that starts now where ``placed`` says, after the spot VMs ``preempts`` were stopped."""

    waiting: Waiting
    placed: Placed
    preempts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
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

    waiting: Waiting
    position: int
    why: Why
    text: str
    reservation: Reservation | None = None
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
class Turn:
    """What to do now: ``starts`` in that order; everything else waits, by position."""

    starts: tuple[Start, ...]
    waits: tuple[Wait, ...]
    reservations: tuple[Reservation, ...] = ()
    events: tuple[QueueEvent, ...] = ()
