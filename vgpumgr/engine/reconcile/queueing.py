"""The queue's turn among those of hosts: one controller has it at a time."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.reconcile.context import Shared, words
from vgpumgr.engine.reconcile.events import Emit, Event, EventKind, task_event
from vgpumgr.engine.reconcile.lanes import Lane, Turns
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import queue
from vgpumgr.model.errors import ClaimLost, Interrupted, VgpumgrError
from vgpumgr.model.journal import FINAL_TASKS

# No host is called so.
LANE = "queue:"
# Between two turns in which nothing was to do: so many seconds, or times what the last one took.
PAUSE_S, PAUSE_TIMES = 1.0, 9.0


def take(session: Session, lane: Lane, shared: Shared, emit: Emit) -> bool:
    """The whole turn, unless another controller has it; was anything begun? LedgerError ends it."""
    if not session.ledger.claim(LANE):
        return False
    own = replace(session, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
    try:
        worked = queue.step(own, shared.patience.ready)
    finally:
        session.ledger.release(LANE)
    for each in worked.failed:
        shared.patience.failed(each)
    _tell(worked, emit)
    return worked.any


def _tell(worked: queue.Worked, emit: Emit) -> None:
    for name in worked.ended:
        text = f"{name} has ended: its guest has powered off; what it held is given back"
        emit(Event(kind=EventKind.QUEUE_ENDED, vm=name, text=text))
    for name, other in worked.preempted.items():
        text = f"{name} makes room for {other}, and waits again"
        emit(Event(kind=EventKind.QUEUE_PREEMPTED, vm=name, text=text))
    for name, why in worked.refused.items():
        text = f"{name} was to start, and waits on: {why}"
        emit(
            Event(kind=EventKind.QUEUE_WAITS, vm=name, text=text, next=f"vgpumgr queue show {name}")
        )
    for each in worked.outcomes:
        if each.error is not None or each.state not in FINAL_TASKS:
            emit(task_event(each, ended=each.state in FINAL_TASKS))
        elif each.vm in worked.started:
            text = f"{each.vm} starts on {each.host}"
            emit(Event(kind=EventKind.QUEUE_STARTED, vm=each.vm, host=each.host, text=text))


class QueueTurns:
    """Begins the queue's turn when it is due, beside those of hosts."""

    def __init__(self, session: Session, turns: Turns[bool], shared: Shared, emit: Emit) -> None:
        self._session = session
        self._turns = turns
        self._shared = shared
        self._emit = emit
        self._began = self._due = 0.0
        self._hurried = False
        self._failing = ""

    @property
    def busy(self) -> bool:
        """Is its turn under way?"""
        return bool(self._turns.busy)

    def hurry(self) -> None:
        """The next turn is due at once; may be called by another thread."""
        self._hurried = True

    def begin_due(self) -> None:
        """Begin it, if it is due and not under way."""
        if self.busy or not (self._hurried or self._session.clock.monotonic() >= self._due):
            return
        self._hurried = False
        self._begin()

    def collect(self, wait_s: float = 0.0) -> None:
        """Take in what has ended; waits so long for it. ClaimLost where that was lost."""
        for end in self._turns.ended(wait_s):
            now = self._session.clock.monotonic()
            pause = max(PAUSE_S, PAUSE_TIMES * (now - self._began))
            self._due = now if end.result is True else now + pause
            if isinstance(end.result, ClaimLost):
                raise end.result
            self._tell_failure(end.result)

    def once(self, wait_s: float) -> None:
        """One turn, to its end."""
        self._begin()
        while self.busy and not self._session.stop.is_set():
            self.collect(wait_s)
        self.collect()

    def stop(self) -> None:
        """Let it end after the host call that runs."""
        self._turns.stop()

    def _begin(self) -> None:
        self._began = self._session.clock.monotonic()
        self._turns.begin(LANE, lambda lane: take(self._session, lane, self._shared, self._emit))

    def _tell_failure(self, result: bool | Exception) -> None:
        """Each failure once, until it goes well."""
        failed = str(result) if isinstance(result, Exception) else ""
        if failed and failed != self._failing and not isinstance(result, Interrupted):
            text = f"the queue: {words(result) if isinstance(result, VgpumgrError) else failed}"
            self._emit(Event(kind=EventKind.TURN_FAILED, text=text))
        self._failing = failed
