"""Tasks of `serve` that belong to no host: queue, pools, fragmentation gauge, moves after a
logoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import ControllerState, QueueMemory, error_line
from vgpumgr.engine.controller.cycle_threads import CycleRunner, CycleThread
from vgpumgr.engine.controller.look_backoff import RetryBackoff
from vgpumgr.engine.defrag import defragmentation
from vgpumgr.engine.defrag.defrag_plan import DefragRequest, find
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.migration import logoff_moves
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.pools import pool_cycle
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.model.defrag import DefragMoves
from vgpumgr.model.desktop import DesktopRecord, DesktopState
from vgpumgr.model.errors import ClaimLost, Interrupted, VgpumgrError
from vgpumgr.model.operation import FINAL_TASKS

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

    def hurry(self) -> None:
        """The next cycles are due at once; may be called by another thread."""
        for due in self._due.values():
            due.hurried = True

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


# Between two looks, in seconds: measuring a large fleet takes one.
EVERY_S = 600.0
# A share that is never more than that.
NEVER = 1.0


class GaugeWatch:
    """Tells once when more than ``most`` of the free GPU memory is of no use, and once when it is
    over; ``high`` meanwhile. Nothing is moved.
    """

    def __init__(self, context: EngineContext, most: float, emit: Emit) -> None:
        self._context = context
        self.most = most
        self._emit = emit
        self.high = False
        self._due = 0.0

    def look(self) -> None:
        """Measure, if it is due."""
        now = self._context.clock.monotonic()
        if now < self._due or self.most >= NEVER:
            return
        self._due = now + EVERY_S
        ledger, at = self._context.ledger, self._context.clock.now()
        fleet = build_fleet(self._context.view())
        gauge = FragmentationMeasure(fleet, self._context.expected, ledger, at).gauge()
        before, self.high = self.high, gauge.share > self.most
        words = f"{gauge.share:.0%} of the free GPU memory is unusable for {gauge.mix}"
        if self.high and not before:
            text = f"{words}, more than {self.most:.0%}"
            kind = EventKind.FRAGMENTED
            self._emit(ControllerEvent(kind=kind, text=text, next="vgpumgr defrag plan"))
        elif before and not self.high:
            self._emit(ControllerEvent(kind=EventKind.FRAGMENTED_ENDED, text=f"resolved: {words}"))


# No host is called so.
QUEUE_THREAD = "queue:"


def run_queue_cycle(
    context: EngineContext, lane: CycleThread, shared: ControllerState, emit: Emit
) -> bool:
    """The whole cycle, unless another controller has it; anything begun? LedgerError ends it."""
    if not context.ledger.claim(QUEUE_THREAD):
        return False
    own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
    try:
        worked = queue_cycle.step(own, shared.patience.ready, shared.queue.kept)
    finally:
        context.ledger.release(QUEUE_THREAD)
    shared.queue.kept = worked.kept
    for each in worked.failed:
        shared.patience.failed(each)
    _tell(worked, emit)
    _tell_lacking(context.expected.latest.warning, shared.queue, emit)
    return worked.any


def _tell_lacking(warning: str, memory: QueueMemory, emit: Emit) -> None:
    """Once each time that it begins, or is another."""
    if warning and warning != memory.lacking:
        emit(ControllerEvent(kind=EventKind.PLAN_MISSING, text=warning))
    memory.lacking = warning


def _tell(worked: queue_cycle.QueueCycleReport, emit: Emit) -> None:
    for name in worked.ended:
        text = f"{name} has ended: its guest powered off; its resources are released"
        emit(ControllerEvent(kind=EventKind.QUEUE_ENDED, vm=name, text=text))
    for name, other in worked.preempted.items():
        text = f"{name} is preempted by {other}, and waits again"
        emit(ControllerEvent(kind=EventKind.QUEUE_PREEMPTED, vm=name, text=text))
    for name, why in worked.refused.items():
        text = f"{name} could not start and keeps waiting: {why}"
        emit(
            ControllerEvent(
                kind=EventKind.QUEUE_WAITS, vm=name, text=text, next=f"vgpumgr queue show {name}"
            )
        )
    for each in worked.outcomes:
        if each.error is not None or each.state not in FINAL_TASKS:
            emit(task_event(each, ended=each.state in FINAL_TASKS))
        elif each.vm in worked.started:
            text = f"{each.vm} starts on {each.host}"
            emit(
                ControllerEvent(kind=EventKind.QUEUE_STARTED, vm=each.vm, host=each.host, text=text)
            )


# No host is called so.
POOL_THREAD = "pools:"


class PoolTask:
    """Takes it, and remembers of what it warned."""

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit
        self._warned: frozenset[tuple[str, str]] = frozenset()
        self._refused: dict[str, str] = {}

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything begun?"""
        context = self._context
        if not context.ledger.pools() or not context.ledger.claim(POOL_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            worked = pool_cycle.step(own, self._patience.ready)
        finally:
            context.ledger.release(POOL_THREAD)
        for row in worked.moved:
            if row.desktop.ready:
                self._patience.done(row.id)
                self._patience.done(row.pool)
        for each in worked.failed:
            self._patience.failed(each)
        self._tell(worked)
        return worked.any

    def _tell(self, worked: pool_cycle.PoolCycleReport) -> None:
        for row in worked.moved:
            if row.doing is None and row.closed_at is None:
                self._tell_desktop(row)
        for each in worked.outcomes:
            if each.error is not None or each.state not in FINAL_TASKS:
                self._emit(task_event(each, ended=each.state in FINAL_TASKS))
        for name, why in worked.refused.items():
            if self._refused.get(name) != why:
                self._emit(
                    ControllerEvent(kind=EventKind.POOL_WAITS, vm=name, text=f"{name} waits: {why}")
                )
        self._refused = dict(worked.refused)
        self._warn(worked)

    def _tell_desktop(self, row: DesktopRecord) -> None:
        it = row.desktop
        if it.state is DesktopState.FAILED:
            text = f"{it.name} failed: {row.why}"
            self._emit(
                ControllerEvent(kind=EventKind.DESKTOP_FAILED, vm=it.name, host=it.host, text=text)
            )
        elif it.free:
            text = f"{it.name} is ready on {it.host}"
            self._emit(
                ControllerEvent(kind=EventKind.DESKTOP_READY, vm=it.name, host=it.host, text=text)
            )

    def _warn(self, worked: pool_cycle.PoolCycleReport) -> None:
        """Once, until it is over."""
        found = {
            (name, each.code): each.text
            for name, warnings in worked.warnings.items()
            for each in warnings
        }
        for (name, code), text in found.items():
            if (name, code) not in self._warned:
                self._emit(
                    ControllerEvent(
                        kind=EventKind.POOL_WARNS,
                        subject=name,
                        state=code,
                        text=f"pool {name}: {text}",
                        next=f"vgpumgr pool explain {name}",
                    )
                )
        self._warned = frozenset(found)


# No host is called so.
MOVE_THREAD = "moves:"
# Moves that a turn makes by itself, at most.
MOST_MOVES = 4


class MoveTask:
    """Takes it; ``automatic``: moves that ``gauge`` calls for are made without being asked for."""

    def __init__(
        self,
        context: EngineContext,
        patience: RetryBackoff,
        gauge: GaugeWatch,
        emit: Emit,
        *,
        automatic: bool,
    ) -> None:
        self._context = context
        self._patience = patience
        self._gauge = gauge
        self._emit = emit
        self._automatic = automatic
        self._due = 0.0
        self._refused: dict[str, str] = {}

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything begun?"""
        context = self._context
        defrags = self._automatic and self._gauge.high and context.clock.monotonic() >= self._due
        if not (defrags or context.ledger.logoff_moves()) or not context.ledger.claim(MOVE_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            moved = self._after_logoff(own)
            return (self._defrag(own) if defrags else False) or moved
        finally:
            context.ledger.release(MOVE_THREAD)

    def _after_logoff(self, context: EngineContext) -> bool:
        worked = logoff_moves.step(context, self._patience.ready)
        for each, what in worked.ended:
            self._patience.done(each.id)
            text = f"{each.vm}: {each.user} has logged off, {what}"
            self._emit(ControllerEvent(kind=EventKind.MOVED, vm=each.vm, host=each.host, text=text))
        for id_, why in worked.refused.items():
            self._patience.failed(id_)
            if self._refused.get(id_) != why:
                text = f"{why}; its move stays pending"
                self._emit(
                    ControllerEvent(
                        kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag list"
                    )
                )
        self._refused = dict(worked.refused)
        for each_done in worked.outcomes:
            if each_done.error is not None or each_done.state not in FINAL_TASKS:
                self._emit(task_event(each_done, ended=each_done.state in FINAL_TASKS))
        _look_at(context, worked.outcomes)
        return bool(worked.ended or worked.outcomes)

    def _defrag(self, context: EngineContext) -> bool:
        """A few moves at a time; the gauge is looked at again before there are more."""
        self._due = context.clock.monotonic() + EVERY_S
        waiting = {each.vm for each in context.ledger.logoff_moves()}
        context.refresh_all()
        wanted = DefragRequest(share=self._gauge.most, at_logoff=True, most=MOST_MOVES)
        planned = find(context, wanted)
        if not isinstance(planned.found, DefragMoves) or not planned.found.moves:
            return False
        left = tuple(each for each in planned.found.moves if each.vm not in waiting)
        done = defragmentation.apply(
            context, replace(planned, found=replace(planned.found, moves=left))
        )
        _look_at(context, done.outcome.vms)
        for move in done.done:
            host = move.target.host
            where = f"to another GPU of {host}" if move.within else f"{move.source.host} → {host}"
            text = f"{move.vm} was moved {where}, to reduce fragmentation"
            self._emit(ControllerEvent(kind=EventKind.MOVED, vm=move.vm, host=host, text=text))
        for move in done.waiting:
            text = f"{move.vm} moves when {move.user} logs off, to reduce fragmentation"
            self._emit(ControllerEvent(kind=EventKind.MOVE_WAITS, vm=move.vm, text=text))
        if done.error is not None:
            text = f"a move to reduce fragmentation was refused: {done.error.message}"
            self._emit(
                ControllerEvent(kind=EventKind.MOVE_WAITS, text=text, next="vgpumgr defrag plan")
            )
        return bool(done.done or done.waiting)


def _look_at(context: EngineContext, outcomes: Iterable[VmOutcome]) -> None:
    """Lists show what was done."""
    if touched := {host for each in outcomes for host in each.hosts}:
        context.refresh(touched)
