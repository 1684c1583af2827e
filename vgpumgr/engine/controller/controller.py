"""The loop of `serve`: due cycles started, dead workers noticed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from vgpumgr.engine.controller import (
    automatic_defrag,
    backup_task,
    desktop_task,
    group_task,
    guest_task,
    host_cycle,
    pool_task,
    power_task,
    queue_task,
)
from vgpumgr.engine.controller.automatic_defrag import MoveTask
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, LedgerState
from vgpumgr.engine.controller.cycle_context import (
    ControllerState,
    HostCycle,
    HostCycleMemory,
)
from vgpumgr.engine.controller.cycle_schedule import (
    ControllerStatus,
    CycleHistory,
    OpenOperation,
    ProbePauses,
)
from vgpumgr.engine.controller.cycle_threads import (
    CycleRunner,
    CycleThread,
    EndedCycle,
    SerialCycleRunner,
    watched,
)
from vgpumgr.engine.controller.fleet_task_runner import FleetTaskRunner, Job
from vgpumgr.engine.controller.fragmentation_watch import NEVER, GaugeWatch
from vgpumgr.engine.controller.host_cycle import CycleEnd
from vgpumgr.engine.controller.operation_recovery import OperationClosing, OrphanedOperations
from vgpumgr.engine.controller.power_task import PowerPolicy
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_status import status
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.health.health_policy import HealthPolicy
from vgpumgr.model.errors import ClaimLost, LedgerError, NotFound
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.operation import OperationRecord

# How long a round waits for a turn to end before it looks for other work, in seconds.
BEAT_S = 1.0
# For each cycle that may begin so many due hosts are taken in one transaction.
AHEAD = 2


class Controller:
    """Runs the cycles of hosts, the queue and the pools until ``context.stop`` is set. Cycles that
    belong to no host run in threads of their own, ``beside`` (None: in the thread of the loop).

    ``show`` is called once a round with the controller's status. Moves are proposed where more free
    GPU memory than ``most_fragmented`` is of no use; where the controller ``defrags`` by itself,
    moves that cut no user off are made. ``evacuates``: hosts that do not answer and are proven off
    are evacuated without a command. ``health`` is what is done about GPUs,
    ``power`` whether they are capped by the newest ``figures``. ClaimLost ends the work
    of a process: its claims belong to another process, and it begins anew.
    """

    def __init__(
        self,
        context: EngineContext,
        turns: CycleRunner[CycleEnd],
        pace: ProbePauses,
        *,
        emit: Emit,
        show: Callable[[ControllerStatus], None] = lambda _: None,
        beside: CycleRunner[bool] | None = None,
        most_fragmented: float = NEVER,
        evacuates: bool = False,
        defrags: bool = False,
        health: HealthPolicy | None = None,
        power: PowerPolicy | None = None,
        figures: Callable[[], FleetSample | None] = lambda: None,
    ) -> None:
        self._context = context
        self._turns = turns
        self._pace = pace
        self._emit = emit
        self._show = show
        self._shared = ControllerState.new(context, evacuates=evacuates, health=health)
        patience = self._shared.patience
        self._book = CycleHistory(context.clock, pace, emit)
        close = OperationClosing(context.ledger, context.clock, patience, emit)
        self._gauge = GaugeWatch(context, most_fragmented, emit)
        moves = MoveTask(context, patience, self._gauge, emit, automatic=defrags)
        jobs: dict[str, Job] = {
            queue_task.QUEUE_THREAD: lambda lane: queue_task.run_queue_cycle(
                context, lane, self._shared, emit
            ),
            pool_task.POOL_THREAD: pool_task.PoolTask(context, patience, emit).take,
            desktop_task.DESKTOP_THREAD: desktop_task.DesktopTask(context, patience, emit).take,
            group_task.GROUP_THREAD: group_task.GroupTask(context, patience, emit).take,
            automatic_defrag.MOVE_THREAD: moves.take,
            power_task.POWER_THREAD: power_task.PowerTask(
                context, figures, power or PowerPolicy(), emit
            ).take,
            backup_task.BACKUP_THREAD: backup_task.BackupTask(context, patience, emit).take,
            guest_task.GUEST_THREAD: partial(
                self._look_at_guests, guest_task.GuestTask(context, patience, emit)
            ),
        }
        self._beside = FleetTaskRunner(
            context, beside or SerialCycleRunner(context.clock), jobs, emit
        )
        self._dead = OrphanedOperations(context, self._shared, pace.interval_s, close)
        self._state = LedgerState(context.ledger, emit)
        self._taken: deque[str] = deque()
        self._next_due: dict[str, float] = {}
        self._all_taken = False
        self._reviewed = float("-inf")

    def run(self) -> None:
        """Round after round; what other processes hint at is looked at without waiting."""
        with closing(self._context.ledger.hear(self._hint)):
            while not self._context.stop.is_set():
                self.round(BEAT_S)

    def round(self, wait_s: float = 0.0) -> None:
        """One round: ended cycles, due cycles; waits up to that long for an end. What concerns the
        whole fleet is looked at once in ``BEAT_S`` at most.
        """
        try:
            self._collect(wait_s)
            since = self._context.clock.monotonic() - self._reviewed
            if not wait_s or not 0 <= since < BEAT_S:
                self._review()
                self._reviewed = self._context.clock.monotonic()
            elif not self._context.stop.is_set():
                self._begin_due()
        except ClaimLost:
            raise
        except LedgerError as error:
            self._state.failed(error)

    def _review(self) -> None:
        """Operations of dead workers, due cycles, tasks of the fleet, and how things stand."""
        self._write_looks()
        self._shared.changed.read()
        open_ = self._context.ledger.operations(open_only=True)
        if not self._context.stop.is_set():
            self._dead.make_due(open_, self._can_begin)
            self._all_taken = False
            self._begin_due()
            self._beside.begin_due()
        self._beside.collect()
        self._state.tell_frozen()
        self._gauge.look()
        self._show(self._status(open_))
        self._state.works()

    def _write_looks(self) -> None:
        """Write looks without news, and when hosts are due next, in one transaction each."""
        self._shared.looks.write()
        due, self._next_due = self._next_due, {}
        if due:
            self._context.ledger.hosts_due(due)

    def once(self) -> ControllerStatus:
        """One cycle of every host, side by side; how things stand when all have ended or hang."""
        ledger = self._context.ledger
        self._shared.changed.read()
        waiting = [host.name for host in ledger.hosts()]
        self._dead.close_orphans(ledger.operations(open_only=True), waiting)
        while waiting or self._running:
            while waiting and self._turns.free > 0:
                self._begin(waiting.pop(0))
            self._collect(BEAT_S)
            if self._context.stop.is_set():
                break
        else:
            self._gauge.look()
            self._beside.once(BEAT_S)
        self._write_looks()
        self._state.tell_frozen()
        status = self._status(ledger.operations(open_only=True))
        self._show(status)
        return status

    def finish(self, within_s: float) -> bool:
        """Let every cycle end after the host call that runs; have all ended in time?"""
        self._turns.stop()
        self._beside.stop()
        until = self._context.clock.monotonic() + within_s
        while self._running and self._context.clock.monotonic() < until:
            for end in self._turns.ended(BEAT_S):
                self._ended(end)
        while self._beside.busy and self._context.clock.monotonic() < until:
            self._beside.collect(BEAT_S)
        return not self._turns.busy and not self._beside.busy

    # -- turns ---------------------------------------------------------------------------------

    @property
    def _running(self) -> frozenset[str]:
        return self._turns.busy - self._turns.stuck

    def _hint(self) -> None:
        """In a thread of its own."""
        self._beside.hurry()
        self._reviewed = float("-inf")
        self._turns.wake()

    def _look_at_guests(self, task: guest_task.GuestTask, lane: CycleThread) -> bool:
        """In its own thread; desktops whose guests have become ready are handed over then."""
        changed = task.take(lane)
        if changed:
            self._beside.hurry(desktop_task.DESKTOP_THREAD)
        return changed

    def _can_begin(self, host: str) -> bool:
        """Whether a host has no cycle under way, and its last cycle did not fail."""
        return host not in self._turns.busy and not self._book.failing(host)

    def _begin_due(self) -> None:
        while (free := self._turns.free) > 0:
            if not self._taken and not self._all_taken:
                self._take(AHEAD * free)
            if not self._taken:
                break
            host = self._taken.popleft()
            if host not in self._turns.busy:
                self._begin(host)

    def _take(self, most: int) -> None:
        now = self._context.clock.now()
        found = self._context.ledger.take_hosts(now, now + self._pace.interval_s, most)
        self._taken.extend(found)
        self._all_taken = len(found) < most

    def _begin(self, host: str) -> None:
        self._dead.begun(host)
        self._turns.begin(host, partial(self._turn, host, self._book.begun(host)))

    def _turn(self, host: str, memory: HostCycleMemory, lane: CycleThread) -> CycleEnd:
        """In the cycle's own thread."""

        def emit(event: ControllerEvent) -> None:
            if not lane.abandoned:
                self._emit(event)

        own = replace(
            self._context,
            ledger=watched(self._context.ledger, lane),
            lanes=SerialWorkers(),
            stop=lane.stop,
            progress=lambda _: lane.alive(),
            tell=lambda _: lane.alive(),
        )
        return host_cycle.run_cycle(
            HostCycle(own, host, lane, memory, self._shared, self._context.lanes, emit)
        )

    def _collect(self, wait_s: float) -> None:
        for end in self._turns.ended(wait_s):
            self._ended(end)
        for lane in self._turns.abandon_overdue():
            with suppress(NotFound):  # it left the fleet meanwhile
                self._context.ledger.observation_failed(lane.host, self._book.stuck(lane))

    def _ended(self, end: EndedCycle[CycleEnd]) -> None:
        host, pause = end.lane.host, 0.0
        if isinstance(end.result, ClaimLost):
            raise end.result
        if end.lane.abandoned:
            self._book.unstuck(host)
        else:
            pause = self._book.ended(host, end.result)
        self._next_due[host] = self._context.clock.now() + pause

    # -- how things stand ----------------------------------------------------------------------

    def _status(self, open_: Sequence[OperationRecord]) -> ControllerStatus:
        return ControllerStatus(
            at=self._context.clock.now(),
            frozen=self._state.frozen,
            hosts=self._book.statuses(),
            busy=tuple(sorted(self._turns.busy)),
            stuck=tuple(sorted(self._turns.stuck)),
            open_operations=tuple(map(self._open_operation, open_)),
        )

    def _open_operation(self, operation: OperationRecord) -> OpenOperation:
        worked_on = self._context.ledger.is_worked_on(operation.id)
        now = self._context.clock.now()
        how = status(operation, (), worked_on=worked_on, now=now)
        return OpenOperation(
            id=operation.id,
            kind=operation.kind,
            state=str(how.word),
            summary=how.note,
            left_until=how.left_until,
        )
