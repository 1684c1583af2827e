"""A worker thread for each host, and how long each host is waited for by the real clock.

A slow host delays only itself. A lane ends by itself, because every host call has a deadline that
cuts the way to the host: the bridge under libvirt, the SSH channel under the helper. Should one
not end all the same, it is left out: neither a look nor the process waits for it (threads are
daemons).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from vgpumgr.model.actor import carried
from vgpumgr.model.errors import DatabaseFault, DeadlineExceeded
from vgpumgr.model.ports import WAIT_LIMITS, PendingAnswers, WaitLimits, WaitPolicy

T = TypeVar("T")
K = TypeVar("K")

MAX_LANES = 32


class ThreadWorkers:
    """Worker threads, at most ``most`` at once. A thread that only looks makes room for the next
    host when it has been silent for ``gives_way_s``.
    """

    def __init__(self, most: int = MAX_LANES, gives_way_s: float = WAIT_LIMITS.least_s) -> None:
        self._most = most
        self._gives_way_s = gives_way_s
        self._left: list[_Lane] = []

    def run(
        self, work: Mapping[str, Callable[[], T]], within_s: float | None = WAIT_LIMITS.look_s
    ) -> dict[str, T | Exception]:
        """Run all; an exception becomes its host's value, and so does a deadline."""
        gives_way_s = math.inf if within_s is None else self._gives_way_s
        looks = ThreadLooks(self, work, _as_it_is, self._most, gives_way_s)
        silent = looks.wait(WaitForAll(within_s))
        looks.leave()
        late: dict[str, T | Exception] = {
            host: abandonment_error(host, s) for host, s in silent.items()
        }
        found = {**late, **looks.answers}
        return {host: found[host] for host in work}

    def look(
        self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]
    ) -> PendingAnswers[K]:
        """Looks under way, a thread for each."""
        return ThreadLooks(self, work, keep, self._most, self._gives_way_s)

    def hanging(self) -> dict[str, float]:
        """Hosts whose thread was left and has not ended, and when it began."""
        self._left = [lane for lane in self._left if not lane.ended]
        return {lane.host: lane.began for lane in self._left}

    def leave(self, lane: _Lane) -> None:
        """Leave a thread that is waited for no longer."""
        self._left.append(lane)


@dataclass(slots=True)
class _Lane:
    host: str
    began: float
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    """``value``: the result or error of the job; a death (no Exception) ends the waiting thread,
    too.
    """

    lane: _Lane
    took_s: float
    value: T | BaseException


class ThreadLooks(Generic[T, K]):
    """Fulfils ``ports.PendingAnswers``: a daemon thread for each asked host."""

    def __init__(
        self,
        lanes: ThreadWorkers,
        work: Mapping[str, Callable[[], T]],
        keep: Callable[[str, T], K],
        most: int,
        gives_way_s: float,
    ) -> None:
        self._lanes = lanes
        self._keep = keep
        self._most = most
        self._gives_way_s = gives_way_s
        self._due = dict(work)
        self._running: dict[str, _Lane] = {}
        self._took: dict[str, float] = {}
        self._answers: dict[str, K | Exception] = {}
        self._ends: queue.SimpleQueue[_End[T]] = queue.SimpleQueue()

    @property
    def answers(self) -> Mapping[str, K | Exception]:
        """The answers of hosts by now."""
        return self._answers

    def wait(self, waiting: WaitPolicy) -> Mapping[str, float]:
        """Ask the hosts that were not asked yet, and wait; a host that still hangs from an earlier
        look is not asked, unless it is insisted on.
        """
        while True:
            hanging = self._hanging(waiting)
            place_in_s = self._begin(hanging)
            silent = self._silent(hanging)
            more_s = waiting.more_s(self._took, silent)
            if not silent or more_s <= 0:
                return silent | hanging
            self._take(min(more_s, place_in_s))

    def leave(self) -> None:
        """Late answers are dropped; the lanes end in their own time."""
        for lane in self._running.values():
            self._lanes.leave(lane)
        self._running.clear()
        self._due.clear()

    def _hanging(self, waiting: WaitPolicy) -> dict[str, float]:
        """The hosts that are not asked, and for how long they have been silent."""
        now, left = time.monotonic(), self._lanes.hanging()
        if not left:
            return {}
        skipped = (host for host in self._due if host in left and not waiting.insists_on(host))
        return {host: now - left[host] for host in skipped}

    def _begin(self, without: Collection[str]) -> float:
        """Begin as many as there are places for; in how many seconds the next one can begin."""
        while (host := next((each for each in self._due if each not in without), None)) is not None:
            place_in_s = self._place_in_s()
            if place_in_s > 0:
                return place_in_s
            lane = self._running[host] = _Lane(host, time.monotonic())
            args = (lane, self._due.pop(host))
            run = carried(self._run)
            threading.Thread(target=run, args=args, name=f"lane-{host}", daemon=True).start()
        return math.inf

    def _place_in_s(self) -> float:
        if len(self._running) < self._most:
            return 0.0
        now = time.monotonic()
        gives_way = (lane.began + self._gives_way_s - now for lane in self._running.values())
        left = sorted(seconds for seconds in gives_way if seconds > 0)
        return left[-self._most] if len(left) >= self._most else 0.0

    def _run(self, lane: _Lane, job: Callable[[], T]) -> None:
        value: T | BaseException
        try:
            value = job()
        except BaseException as error:
            value = error
        lane.ended = True
        self._ends.put(_End(lane, time.monotonic() - lane.began, value))

    def _silent(self, without: Collection[str]) -> dict[str, float]:
        """Hosts that are being asked, and hosts that wait for a thread."""
        now = time.monotonic()
        waiting = dict.fromkeys((host for host in self._due if host not in without), 0.0)
        return waiting | {host: now - lane.began for host, lane in self._running.items()}

    def _take(self, within_s: float) -> None:
        """The next answer, kept, and all that are there by then; waits so long for it."""
        try:
            self._keep_end(self._ends.get(timeout=None if math.isinf(within_s) else within_s))
            while True:
                self._keep_end(self._ends.get_nowait())
        except queue.Empty:
            return

    def _keep_end(self, end: _End[T]) -> None:
        host, value = end.lane.host, end.value
        if isinstance(value, BaseException) and not isinstance(value, Exception):
            raise value
        del self._running[host]
        self._answers[host] = kept(self._keep, host, value)
        if not isinstance(value, Exception):
            self._took[host] = end.took_s


def _as_it_is(_host: str, value: T) -> T:
    return value


class SystemClock:
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""
        time.sleep(seconds)


def result_or_error(job: Callable[[], T]) -> T | Exception:
    """The job's result, or the error that it raised."""
    try:
        return job()
    except Exception as error:
        return error


def kept(keep: Callable[[str, T], K], host: str, value: T | Exception) -> K | Exception:
    """A value as ``keep`` keeps it; an error as it is. DatabaseFault is no answer of the host."""
    if isinstance(value, Exception):
        return value
    end = result_or_error(lambda: keep(host, value))
    if isinstance(end, DatabaseFault):
        raise end
    return end


def abandonment_error(host: str, seconds: float) -> DeadlineExceeded:
    """The value of a host that did not answer in time."""
    return DeadlineExceeded(
        f"{host} did not answer within {seconds:.0f} s",
        why="nothing waits for it any longer",
        next=f"vgpumgr doctor {host}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForCandidates:
    """Fulfils ``ports.WaitPolicy`` for hosts of which any will do.

    ``doubted`` are hosts whose last look failed. No other is left out before more than half have
    answered, not counting hosts that failed at once; hosts of ``named`` are never left out.
    """

    named: Collection[str] = ()
    doubted: Collection[str] = ()
    waits: WaitLimits = WAIT_LIMITS

    def insists_on(self, host: str) -> bool:
        """Whether the host is waited for, however long the others took."""
        return host in self.named

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """How much longer to wait, 0 for not at all.

        ``took`` are the seconds that each host took which answered, ``silent`` the seconds for
        which each of the others has been silent.
        """
        return max((self._most_s(host, took, silent) - s for host, s in silent.items()), default=0)

    def _most_s(self, host: str, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        if self.insists_on(host) or not took:
            return self.waits.look_s
        slowest = max(took.values())
        if host in self.doubted:
            return slowest + self.waits.doubted_s
        if len(took) <= len(silent):
            return self.waits.look_s
        return max(self.waits.least_s, self.waits.times * slowest)


class WaitForAll:
    """Fulfils ``ports.WaitPolicy``: all are waited for, ``within_s`` at most; None: without end."""

    def __init__(self, within_s: float | None) -> None:
        self._within_s = math.inf if within_s is None else within_s

    def insists_on(self, host: str) -> bool:
        """Always."""
        return True

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """Until the last one has had its time."""
        return max((self._within_s - s for s in silent.values()), default=0)
