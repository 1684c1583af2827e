"""When each host has its next reconcile cycle: within the interval, after failures once a growing
pause is over; the controller's status.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_context import HostCycleMemory, error_line
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.host_cycle import CycleEnd, CycleState
from vgpumgr.engine.controller.retry_backoff import FIRST_S, backed_off
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCycleStatus:
    """A host's last cycle. Times are Unix seconds; ``failures`` are cycles in a row that failed."""

    name: str
    state: str
    why: str = ""
    turn_at: float | None = None
    took_s: float = 0.0
    failures: int = 0
    drifts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOperation:
    """An operation that has not ended; ``summary`` names its obstacle, where that is known.

    ``left_until``: until then it is left to the person that interrupted it (Unix seconds).
    """

    id: str
    kind: str
    state: str
    summary: str = ""
    left_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """The status of a controller. ``stuck`` are hosts whose cycle hangs and keeps a thread;
    ``busy`` are hosts with a cycle under way.

    ``frozen`` says why the ledger may not allocate; empty where it may.
    """

    at: float
    frozen: str = ""
    hosts: tuple[HostCycleStatus, ...] = ()
    busy: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    open_operations: tuple[OpenOperation, ...] = ()


FAILED, STUCK = "failed", "stuck"
_TRIED_AGAIN = frozenset({CycleState.UNREACHABLE, CycleState.RETURNING})
_SILENT = frozenset({str(CycleState.UNREACHABLE), STUCK})


@dataclass(slots=True)
class _Page:
    status: HostCycleStatus
    began: float = 0.0
    memory: HostCycleMemory = field(default_factory=HostCycleMemory)


class CycleHistory:
    """The cycles of one process, host by host, and the schedule that follows from them."""

    def __init__(self, clock: Clock, pace: ProbePauses, emit: Emit) -> None:
        self._clock = clock
        self._pace = pace
        self._emit = emit
        self._pages: dict[str, _Page] = {}

    def statuses(self) -> tuple[HostCycleStatus, ...]:
        """Every host's last cycle, by name."""
        return tuple(self._pages[name].status for name in sorted(self._pages))

    def failing(self, host: str) -> bool:
        """Did its last cycle fail? Then it is tried again in its own time."""
        page = self._pages.get(host)
        return page is not None and page.status.failures > 0

    def begun(self, host: str) -> HostCycleMemory:
        """A cycle begins; what is remembered of the host."""
        new = _Page(HostCycleStatus(name=host, state=""))
        page = self._pages.setdefault(host, new)
        page.began = self._clock.monotonic()
        return page.memory

    def ended(self, host: str, result: CycleEnd | Exception) -> float:
        """How the cycle went; the seconds until the next."""
        if isinstance(result, Exception):
            return self._failed(host, result)
        if result.state is CycleState.NOT_ENROLLED:
            del self._pages[host]
            return 0.0
        page = self._pages[host]
        was_silent = page.status.state in _SILENT
        failures = page.status.failures + 1 if result.state in _TRIED_AGAIN else 0
        told = page.status.why if result.state is CycleState.UNREACHABLE and was_silent else ""
        self._write(page, str(result.state), result.why, failures, result.drifts)
        self._tell(host, result, was_silent=was_silent, told=told)
        return self._pace.again(failures) if failures else self._pace.calm()

    def stuck(self, lane: CycleThread) -> str:
        """A cycle shows no life and is abandoned; why its host counts as unreachable."""
        page = self._pages[lane.host]
        why = f"no sign of life for {lane.silence_s:.0f} s; a thread of serve still waits for it"
        self._write(page, STUCK, why, page.status.failures + 1, page.status.drifts)
        self._emit(
            ControllerEvent(kind=EventKind.HOST_STUCK, host=lane.host, text=f"{lane.host}: {why}")
        )
        return why

    def unstuck(self, host: str) -> None:
        """Take back a host whose abandoned cycle has ended: its result is dropped, and it is probed
        anew.
        """
        text = f"{host}: the hung reconcile cycle has ended; the host is reconciled again"
        self._emit(ControllerEvent(kind=EventKind.HOST_UNSTUCK, host=host, text=text))

    def _failed(self, host: str, error: Exception) -> float:
        page = self._pages[host]
        why = error_line(error) if isinstance(error, VgpumgrError) else repr(error)
        if page.status.why != why:
            text = f"the reconcile cycle of {host} failed: {why}"
            self._emit(ControllerEvent(kind=EventKind.TURN_FAILED, host=host, text=text))
        self._write(page, FAILED, why, page.status.failures + 1, page.status.drifts)
        return self._pace.again(page.status.failures)

    def _write(self, page: _Page, state: str, why: str, failures: int, drifts: int) -> None:
        page.status = replace(
            page.status,
            state=state,
            why=why,
            failures=failures,
            drifts=drifts,
            turn_at=self._clock.now(),
            took_s=round(self._clock.monotonic() - page.began, 3),
        )

    def _tell(self, host: str, end: CycleEnd, *, was_silent: bool, told: str) -> None:
        if end.state is CycleState.UNREACHABLE:
            if end.why != told:
                kind, text = EventKind.HOST_UNREACHABLE, f"{host} cannot be reached: {end.why}"
                next_ = f"vgpumgr doctor {host}"
                self._emit(ControllerEvent(kind=kind, host=host, text=text, next=next_))
        elif was_silent and end.state not in {CycleState.HELD, CycleState.STOPPED}:
            text = f"{host} answers again"
            self._emit(ControllerEvent(kind=EventKind.HOST_REACHED, host=host, text=text))


@dataclass(frozen=True, slots=True)
class ProbePauses:
    """Pauses between two looks at a host, in seconds, spread so that hosts do not march in step.

    ``interval_s`` is the longest of all: a host that comes back is seen within it.
    """

    interval_s: float
    first_s: float = FIRST_S
    spread: random.Random = field(default_factory=random.Random)

    def calm(self) -> float:
        """After a look that went well."""
        return self.interval_s * self.spread.uniform(0.8, 1.0)

    def again(self, failures: int) -> float:
        """After so many looks in a row that failed: twice as long each time, up to the interval."""
        return backed_off(failures, self.first_s, self.interval_s) * self.spread.uniform(0.5, 1.0)
