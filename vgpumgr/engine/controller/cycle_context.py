"""The context of a host's reconcile cycle: what changed, which operations this process holds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vgpumgr.engine.controller.controller_events import (
    ControllerEvent,
    Emit,
    EventKind,
    KnownDrifts,
)
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.health.health_policy import HealthPolicy
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, UnchangedLook
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import HostExecutor
from vgpumgr.model.queue import RoomReservation

# On PostgreSQL a record may become visible after later ones: as long as its transaction runs.
_WINDOW_S = 180.0
_WINDOW = 1000


class ChangedHosts:
    """Counts readings of the trail that told of something new; by host, the last that named it.

    A cycle of a host remembers :attr:`count` before it reads the ledger; :meth:`since` says later
    whether a change became visible after that. Records that name neither a host nor an operation,
    unless they are of a kind that no host depends on, count for every host. ``monotonic`` gives
    seconds of a clock that never goes back.
    """

    def __init__(self, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._ledger = ledger
        self._monotonic = monotonic
        self._end = ledger.trail_since(None).end
        self._floor = max(0, self._end - _WINDOW)
        self._ends: deque[tuple[float, int]] = deque()
        self._seen: set[tuple[int, str]] = set()
        self._last: dict[str, int] = {}
        self._fleet = 0
        self.count = 0
        self.read()

    def read(self) -> None:
        """Take in what is new in the trail."""
        found = self._ledger.trail_since(self._floor)
        if found.end < self._end:  # a backup was put in its place
            self._seen.clear()
            self._ends.clear()
            self._floor = max(0, found.end - _WINDOW)
            self._tell("")
        self._end = found.end
        for each in found.hosts:
            if each not in self._seen:
                self._seen.add(each)
                self._tell(each[1])
        self._raise_floor()

    def since(self, host: str, count: int) -> bool:
        """Has the trail told of this host, or of the whole fleet, since ``count`` was read?"""
        return max(self._fleet, self._last.get(host, 0)) > count

    def _tell(self, host: str) -> None:
        # The count is raised last: a cycle that begins meanwhile looks once too often.
        if host:
            self._last[host] = self.count + 1
        else:
            self._fleet = self.count + 1
        self.count += 1

    def _raise_floor(self) -> None:
        """What was there ``_WINDOW_S`` ago is complete."""
        now = self._monotonic()
        if not self._ends or self._ends[-1][1] != self._end:
            self._ends.append((now, self._end))
        while self._ends and self._ends[0][0] <= now - _WINDOW_S:
            self._floor = max(self._floor, self._ends.popleft()[1])
            self._seen = {each for each in self._seen if each[0] > self._floor}


Close = Callable[[str, str], None]


class _WorkedOperation:
    """An operation that cycles work on: their number, and reasons why it could not end."""

    def __init__(self) -> None:
        self.turns = 0
        self.reasons: list[str] = []


class OperationClaims:
    """Each is claimed for as long as a cycle works on it, not for the life of the process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: dict[str, _WorkedOperation] = {}
        self._guard = threading.Lock()

    @contextmanager
    def hold(self, operation: str, close: Close) -> Iterator[list[str] | None]:
        """A list for reasons why it cannot be ended; None while another process works on it.

        The last cycle that lets go calls ``close`` with the operation and all reasons: it has to
        write down how the operation stands, which is what gives the claim back.
        """
        held = self._take(operation)
        try:
            yield held.reasons if held else None
        finally:
            if held:
                self._let_go(operation, held, close)

    def __contains__(self, operation: str) -> bool:
        return operation in self._held

    def _take(self, operation: str) -> _WorkedOperation | None:
        with self._guard:
            held = self._held.get(operation)
            if held is None:
                if not self._ledger.claim_operation(operation):
                    return None
                held = self._held[operation] = _WorkedOperation()
            held.turns += 1
            return held

    def _let_go(self, operation: str, held: _WorkedOperation, close: Close) -> None:
        with self._guard:
            held.turns -= 1
            if not held.turns:
                del self._held[operation]
                close(operation, "; ".join(held.reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvergedLook:
    """A whole cycle after which nothing was left to do: by which record of the host, what the host
    told, and ``count`` of the trail's readings before the ledger was read.

    ``observed_at`` is when the ledger was last told of such a look, ``whole_until`` when the next
    whole cycle is due (by the monotonic clock). ``agents``: VMs there have guest agents, which are
    to be asked whether users are active.
    """

    record: HostRecord
    told: HostFacts
    count: int
    observed_at: float
    whole_until: float
    drifts: int
    agents: bool


@dataclass(slots=True)
class HostCycleMemory:
    """The memory of a process about a host between cycles; one cycle at a time uses it.

    ``rebooted`` is the boot that was reported, ``waits`` are the reported reasons why the host is
    not converged, ``drained``: the end of its drain was reported. ``guests``: when to ask the agent
    in the guest of a VM (its id) again, by the monotonic clock. ``warned``: users that were told
    of the end of their session. ``off_since``: when the fence
    status of a host that does not answer first said off, by the same clock. ``conditions`` of its
    GPUs were told, and ``intended`` is what would be done about them. ``converged``: the last
    whole cycle, where it left nothing to do.
    """

    known: KnownDrifts = field(default_factory=KnownDrifts)
    rebooted: str = ""
    waits: list[str] = field(default_factory=list)
    drained: bool = False
    guests: dict[str, float] = field(default_factory=dict)
    warned: set[tuple[str, float, float, float]] = field(default_factory=set)
    off_since: float | None = None
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    intended: dict[str, str] = field(default_factory=dict)
    converged: ConvergedLook | None = None


@dataclass(slots=True)
class QueueMemory:
    """The memory of a process about the queue between cycles: capacity reserved for waiting VMs,
    the reported lack of a capacity plan, and when entries (by id) were told that their runtime
    ends.
    """

    kept: tuple[RoomReservation, ...] = ()
    lacking: str = ""
    told: dict[str, float] = field(default_factory=dict)


class UnchangedLooks:
    """Looks at hosts that showed nothing new, written to the ledger together, once a round.

    A host that another process has observed meanwhile is due for a whole cycle: what is written
    of it may be older than our look.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._looks: dict[str, UnchangedLook] = {}
        self._guard = threading.Lock()
        self._outdated: set[str] = set()

    def add(self, look: UnchangedLook) -> None:
        """One more; may be called by any thread."""
        with self._guard:
            waiting = self._looks.get(look.host)
            self._looks[look.host] = replace(look, before=waiting.before) if waiting else look

    def outdated(self, host: str) -> bool:
        """Was it observed by another process since our last look? Says so once."""
        with self._guard:
            found = host in self._outdated
            self._outdated.discard(host)
            return found

    def write(self) -> None:
        """Write what was added since."""
        with self._guard:
            looks, self._looks = tuple(self._looks.values()), {}
        if looks:
            kept = self._ledger.looked_again(looks)
            with self._guard:
                self._outdated |= {look.host for look in looks} - kept


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The state that all cycles of a process share. ``evacuates``: hosts that are proven off are
    evacuated without a command. ``health`` is what is done about GPUs.
    """

    claims: OperationClaims
    patience: RetryBackoff
    changed: ChangedHosts
    looks: UnchangedLooks
    queue: QueueMemory = field(default_factory=QueueMemory)
    evacuates: bool = False
    health: HealthPolicy = field(default_factory=HealthPolicy)

    @classmethod
    def new(
        cls, context: EngineContext, *, evacuates: bool = False, health: HealthPolicy | None = None
    ) -> ControllerState:
        """The state of a process that has just begun."""
        ledger, monotonic = context.ledger, context.clock.monotonic
        return cls(
            OperationClaims(ledger),
            RetryBackoff(monotonic),
            ChangedHosts(ledger, monotonic),
            UnchangedLooks(ledger),
            evacuates=evacuates,
            health=health or HealthPolicy(),
        )


@dataclass(frozen=True, slots=True)
class HostCycle:
    """A context of the cycle's own, its lane, and what is remembered and shared.

    ``side_by_side`` are lanes for what is about several hosts, ``reasons`` what this cycle waits
    for.
    """

    context: EngineContext
    host: str
    lane: CycleThread
    memory: HostCycleMemory
    shared: ControllerState
    side_by_side: HostExecutor
    emit: Emit
    reasons: list[str] = field(default_factory=list)

    def wait_for(self, why: str, next: str = "") -> None:
        """Tell once why the host is not as it should be."""
        self.reasons.append(why)
        if why not in self.memory.waits:
            self.memory.waits.append(why)
            self.emit(
                ControllerEvent(kind=EventKind.HOST_WAITS, host=self.host, text=why, next=next)
            )


def error_line(error: VgpumgrError) -> str:
    """An error in one line."""
    return f"{error.message}: {error.why}" if error.why else error.message
