"""Threads of reconcile cycles: a host that hangs keeps its own thread, and no other waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from vgpumgr.model.actor import carried
from vgpumgr.model.errors import Interrupted
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Clock

T = TypeVar("T")


class CycleThread:
    """One cycle of one host under way. It is abandoned when it shows no life for too long.

    ``stop`` ends it after the host call that runs: nothing new is begun.
    """

    def __init__(self, host: str, clock: Clock) -> None:
        self.host = host
        self.stop = threading.Event()
        self.abandoned = False
        self._clock = clock
        self._within_s = 0.0
        self._due = float("inf")

    def expect(self, within_s: float) -> None:
        """From now on it shows life every so many seconds at least."""
        self._within_s = within_s
        self._due = self._clock.monotonic() + within_s

    def alive(self) -> None:
        """Record a sign of life."""
        self._due = self._clock.monotonic() + (self._within_s or float("inf"))

    @property
    def overdue(self) -> bool:
        """Has it shown no life for too long?"""
        return self._clock.monotonic() > self._due

    @property
    def silence_s(self) -> float:
        """For how long it may be silent."""
        return self._within_s


@dataclass(frozen=True, slots=True)
class EndedCycle(Generic[T]):
    """A lane that ended, with its result or what it raised."""

    lane: CycleThread
    result: T | Exception


class CycleRunner(Protocol[T]):
    """Runs one cycle per host at a time, of several hosts side by side."""

    @property
    def free(self) -> int:
        """How many more may begin now; abandoned ones do not count."""

    @property
    def busy(self) -> frozenset[str]:
        """Hosts with a cycle under way, abandoned cycles included."""

    @property
    def stuck(self) -> frozenset[str]:
        """Hosts with an abandoned cycle that has not ended."""

    def begin(self, host: str, job: Callable[[CycleThread], T]) -> None:
        """Begin a cycle of a host that is not busy."""

    def ended(self, wait_s: float) -> list[EndedCycle[T]]:
        """The cycles that have ended; waits up to that long for the first end. A :meth:`wake` ends
        the wait.
        """

    def abandon_overdue(self) -> list[CycleThread]:
        """Abandon cycles without a sign of life: they keep their threads until they end."""

    def stop(self) -> None:
        """Let every cycle end after the host call that runs."""

    def wake(self) -> None:
        """End a wait; may be called by a signal handler."""


class ThreadCycleRunner(Generic[T]):
    """A thread for each cycle. Threads are daemons: a stuck one does not keep the process."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._lanes: dict[str, CycleThread] = {}
        # Its put is safe in a signal handler, which no lock is.
        self._ends: queue.SimpleQueue[EndedCycle[T] | None] = queue.SimpleQueue()

    @property
    def free(self) -> int:
        """How many more may begin now; abandoned ones do not count."""
        return self._most - (len(self._lanes) - len(self.stuck))

    @property
    def busy(self) -> frozenset[str]:
        """Hosts with a cycle under way, abandoned cycles included."""
        return frozenset(self._lanes)

    @property
    def stuck(self) -> frozenset[str]:
        """Hosts with an abandoned cycle that has not ended."""
        return frozenset(host for host, lane in self._lanes.items() if lane.abandoned)

    def begin(self, host: str, job: Callable[[CycleThread], T]) -> None:
        """Begin a cycle of a host that is not busy."""
        lane = self._lanes[host] = CycleThread(host, self._clock)
        args = (lane, job)
        run = carried(self._run)
        threading.Thread(target=run, args=args, name=f"turn-{host}", daemon=True).start()

    def _run(self, lane: CycleThread, job: Callable[[CycleThread], T]) -> None:
        self._ends.put(_result(lane, job))

    def ended(self, wait_s: float) -> list[EndedCycle[T]]:
        """The cycles that have ended; waits up to that long for the first end. A :meth:`wake` ends
        the wait.
        """
        found: list[EndedCycle[T]] = []
        wait: float | None = wait_s
        while True:
            try:
                end = self._ends.get(timeout=wait) if wait else self._ends.get_nowait()
            except queue.Empty:
                break
            wait = None
            if end is not None:
                del self._lanes[end.lane.host]
                found.append(end)
        return found

    def abandon_overdue(self) -> list[CycleThread]:
        """Abandon cycles without a sign of life: they keep their threads until they end."""
        late = [lane for lane in self._lanes.values() if lane.overdue and not lane.abandoned]
        for lane in late:
            lane.abandoned = True
            lane.stop.set()
        return late

    def stop(self) -> None:
        """Let every cycle end after the host call that runs."""
        for lane in self._lanes.values():
            lane.stop.set()

    def wake(self) -> None:
        """End a wait; may be called by a signal handler."""
        self._ends.put(None)


class SerialCycleRunner(Generic[T]):
    """One cycle at a time, in the caller's thread: for runs on virtual time.

    A wait lets the clock's time pass.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: list[EndedCycle[T]] = []

    free = 1
    busy: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()

    def begin(self, host: str, job: Callable[[CycleThread], T]) -> None:
        """Run it."""
        self._ends.append(_result(CycleThread(host, self._clock), job))

    def ended(self, wait_s: float) -> list[EndedCycle[T]]:
        """The cycles that have run since the last call; without any, time passes."""
        if not self._ends:
            self._clock.wait(wait_s)
        ends, self._ends = self._ends, []
        return ends

    def abandon_overdue(self) -> list[CycleThread]:
        """No host: a cycle runs in the caller's thread."""
        return []

    def stop(self) -> None:
        """Nothing runs."""

    def wake(self) -> None:
        """No effect: no thread waits."""


def _result(lane: CycleThread, job: Callable[[CycleThread], T]) -> EndedCycle[T]:
    try:
        return EndedCycle(lane, job(lane))
    except Exception as error:
        return EndedCycle(lane, error)


def watched(ledger: Ledger, lane: CycleThread) -> Ledger:
    """The ledger for one cycle."""
    return cast("Ledger", _Watched(ledger, lane))


class _Watched:
    def __init__(self, ledger: Ledger, lane: CycleThread) -> None:
        self._ledger = ledger
        self._lane = lane

    def __getattr__(self, name: str) -> Any:
        self._lane.alive()
        return getattr(self._ledger, name)

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep probed facts, unless the cycle was abandoned: they may be old by now."""
        self._lane.alive()
        if self._lane.abandoned:
            raise Interrupted(f"the observation of {facts.host} took too long and was discarded")
        self._ledger.observe(facts, units, at)
