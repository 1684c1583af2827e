"""Tasks of `serve` that belong to no host, each begun in a thread of its own when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_context import error_line
from vgpumgr.engine.controller.cycle_threads import CycleRunner, CycleThread
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.errors import ClaimLost, Interrupted, VgpumgrError

# Between two turns in which nothing was to do: so many seconds, or times what the last one took.
PAUSE_S, PAUSE_TIMES = 1.0, 9.0

# A whole turn in its lane: was anything begun?
Job = Callable[[CycleThread], bool]


@dataclass(slots=True)
class _Due:
    """When a lane's next cycle is due, and what was told of its last."""

    job: Job
    began: float = 0.0
    at: float = 0.0
    hurried: bool = False
    failing: str = ""


class FleetTaskRunner:
    """Begins each job's cycle when it is due. Jobs are by lane, which no host is called like:
    ``queue:``.
    """

    def __init__(
        self, context: EngineContext, turns: CycleRunner[bool], jobs: Mapping[str, Job], emit: Emit
    ) -> None:
        self._context = context
        self._turns = turns
        self._emit = emit
        self._due = {lane: _Due(job) for lane, job in jobs.items()}

    @property
    def busy(self) -> bool:
        """Is one under way?"""
        return bool(self._turns.busy)

    def hurry(self, *names: str) -> None:
        """The next cycles are due at once: these, or all; may be called by another thread."""
        for name in names or self._due:
            self._due[name].hurried = True

    def begin_due(self) -> None:
        """Begin the due tasks that are not under way."""
        for lane, due in self._due.items():
            is_due = due.hurried or self._context.clock.monotonic() >= due.at
            if is_due and lane not in self._turns.busy:
                due.hurried = False
                self._begin(lane)

    def collect(self, wait_s: float = 0.0) -> None:
        """Take in what has ended; waits so long for it. ClaimLost where that was lost."""
        for end in self._turns.ended(wait_s):
            due, now = self._due[end.lane.host], self._context.clock.monotonic()
            pause = max(PAUSE_S, PAUSE_TIMES * (now - due.began))
            due.at = now if end.result is True else now + pause
            if isinstance(end.result, ClaimLost):
                raise end.result
            self._tell_failure(end.lane.host, end.result)

    def once(self, wait_s: float) -> None:
        """One cycle of each, to its end."""
        for lane in self._due:
            self._begin(lane)
        while self.busy and not self._context.stop.is_set():
            self.collect(wait_s)
        self.collect()

    def stop(self) -> None:
        """Let them end after the host call that runs."""
        self._turns.stop()

    def _begin(self, lane: str) -> None:
        due = self._due[lane]
        due.began = self._context.clock.monotonic()
        self._turns.begin(lane, due.job)

    def _tell_failure(self, lane: str, result: bool | Exception) -> None:
        """Each failure once, until it goes well."""
        due = self._due[lane]
        failed = str(result) if isinstance(result, Exception) else ""
        if failed and failed != due.failing and not isinstance(result, Interrupted):
            said = error_line(result) if isinstance(result, VgpumgrError) else failed
            text = f"the {lane.rstrip(':')}: {said}"
            self._emit(ControllerEvent(kind=EventKind.TURN_FAILED, text=text))
        due.failing = failed
