"""What the turn of a host works with."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpumgr.engine.reconcile.claims import OperationClaims
from vgpumgr.engine.reconcile.events import Emit, Event, EventKind
from vgpumgr.engine.reconcile.known import KnownDrifts
from vgpumgr.engine.reconcile.lanes import Lane
from vgpumgr.engine.reconcile.pace import Patience
from vgpumgr.engine.session import Session
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Lanes
from vgpumgr.model.queue import Reservation


@dataclass(slots=True)
class HostMemory:
    """What a process remembers of a host between its turns; only one turn at a time has it.

    ``rebooted`` is the boot that was told, ``waits`` are the reasons that were told why it is not
    as it should be, ``drained``: it was told that nothing is left to move away. ``guests``: when to
    ask the agent in the guest of a VM (its id) again, by the monotonic clock. ``off_since``: the
    fence status of a host that does not answer says off since then, by the same clock.
    """

    known: KnownDrifts = field(default_factory=KnownDrifts)
    rebooted: str = ""
    waits: list[str] = field(default_factory=list)
    drained: bool = False
    guests: dict[str, float] = field(default_factory=dict)
    off_since: float | None = None


@dataclass(slots=True)
class QueueMemory:
    """What a process remembers of the queue between its turns: for whom room is kept, and where;
    and what it said that placement lacks.
    """

    kept: tuple[Reservation, ...] = ()
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all turns of a process share. ``evacuates``: hosts that are proven off are evacuated
    unasked.
    """

    claims: OperationClaims
    patience: Patience
    queue: QueueMemory = field(default_factory=QueueMemory)
    evacuates: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A session of the turn's own, its lane, and what is remembered and shared.

    ``side_by_side`` are lanes for what is about several hosts, ``reasons`` what this turn waits
    for.
    """

    session: Session
    host: str
    lane: Lane
    memory: HostMemory
    shared: Shared
    side_by_side: Lanes
    emit: Emit
    reasons: list[str] = field(default_factory=list)

    def wait_for(self, why: str, next: str = "") -> None:
        """Tell once why the host is not as it should be."""
        self.reasons.append(why)
        if why not in self.memory.waits:
            self.memory.waits.append(why)
            self.emit(Event(kind=EventKind.HOST_WAITS, host=self.host, text=why, next=next))


def words(error: VgpumgrError) -> str:
    """An error in one line."""
    return f"{error.message}: {error.why}" if error.why else error.message
