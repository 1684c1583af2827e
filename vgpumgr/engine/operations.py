"""Running operations: begin one, go on with what was cut, take it back."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine import leftovers
from vgpumgr.engine.execute import Executor, Progress
from vgpumgr.engine.outcome import Outcome
from vgpumgr.engine.reservations import to_undo
from vgpumgr.model.errors import Interrupted
from vgpumgr.model.journal import Reservation, TaskRecord
from vgpumgr.model.ports import Clock, Hosts, Lanes, Ledger
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True)
class Operations:
    """From a reservation to its outcome. Whoever runs an operation has claimed it before."""

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    stop: threading.Event
    progress: Progress

    def begin(self, start: Reservation) -> Outcome:
        """Reserve and run; StaleGeneration changes nothing."""
        if not (start.tasks or start.layouts):
            return Outcome()
        if self.stop.is_set():
            raise Interrupted("interrupted", why="nothing was changed yet")
        self.ledger.reserve(start)
        self._claim(start.operation.id)
        return self._run(start.operation.id, start.tasks)

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted one: look first, then go on."""
        tasks = self._claimed(operation)
        waiting = leftovers.unfinished(tasks)
        tasks = leftovers.close_overtaken(self.ledger, tasks, {})
        return self._run(operation, tasks).of(waiting)

    def undo(self, operation: str) -> Outcome:
        """Take back its unfinished creations; what is done stays."""
        return self._run(operation, to_undo(self._claimed(operation)))

    def finish_leftovers(self, desired: Mapping[str, VmSpec], verbs: Collection[str]) -> Outcome:
        """Go on with what a crash or an interruption left behind on these VMs."""
        ended = Outcome()
        for operation, waits in leftovers.left_behind(self.ledger, desired, verbs):
            if waits:
                ended = ended.then(self._go_on(operation.id, desired))
            elif self.ledger.claim_operation(operation.id):
                self._run(operation.id, self.ledger.tasks(operation.id))
        return ended

    def take_back(self, names: Collection[str]) -> None:
        """Undo the unfinished creations of these VMs, and of no other."""
        for operation, waits in leftovers.left_behind(self.ledger, names, {"create"}):
            if waits:
                tasks = to_undo(self._claimed(operation.id), names)
                outcome = self._run(operation.id, tasks, only=names)
                leftovers.require_taken_back(outcome, names)

    def _go_on(self, operation: str, desired: Mapping[str, VmSpec]) -> Outcome:
        """Resume what was not overtaken by what is desired now."""
        tasks = leftovers.close_overtaken(self.ledger, self._claimed(operation), desired)
        outcome = self._run(operation, tasks)
        if outcome.interrupted:
            outcome.raise_for_failure()
        return outcome.of(leftovers.unfinished(tasks))

    def _run(
        self, operation: str, tasks: Sequence[TaskRecord], only: Collection[str] | None = None
    ) -> Outcome:
        executor = Executor(
            self.ledger, self.hosts, self.lanes, self.clock, self.stop, self.progress
        )
        return executor.run(operation, tasks, self.ledger.hosts(), only)

    def _claimed(self, operation: str) -> tuple[TaskRecord, ...]:
        self._claim(operation)
        return self.ledger.tasks(operation)

    def _claim(self, operation: str) -> None:
        if not self.ledger.claim_operation(operation):
            raise leftovers.running(operation)
