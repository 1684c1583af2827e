"""Operations without a live worker: found, claimed by this process, and closed where their host
is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from vgpumgr.engine.controller.cycle_context import Close, OperationClaims, Shared
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_status import is_left
from vgpumgr.engine.operations.unfinished import unfinished
from vgpumgr.model.errors import NotFound
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import OperationRecord, TaskMoved, TaskRecord, TaskState


def close_orphans(
    ledger: Ledger,
    claims: OperationClaims,
    tasks: Sequence[TaskRecord],
    enrolled: Collection[str],
    close: Close,
) -> None:
    """End an operation's tasks whose host is no longer enrolled: nothing of ours is left there.

    A host is taken out only when nothing is allocated on it.
    """
    gone = [task for task in unfinished(tasks) if task.host not in enrolled]
    if not gone:
        return
    with claims.hold(gone[0].operation, close) as reasons:
        if reasons is None:
            return
        why = {task.id: f"host {task.host} is no longer enrolled" for task in gone}
        ledger.record(
            *(
                TaskMoved(task=each, state=TaskState.FAILED, error=text)
                for each, text in why.items()
            )
        )


class LeftBehind:
    """Looks for them once a round; a host is hurried once per interval."""

    def __init__(
        self, context: EngineContext, shared: Shared, interval_s: float, close: Close
    ) -> None:
        self._context = context
        self._shared = shared
        self._interval_s = interval_s
        self._close = close
        self._hurried: dict[str, float] = {}

    def begun(self, host: str) -> None:
        """Its turn began: it may be hurried again."""
        self._hurried.pop(host, None)

    def make_due(self, open_: Sequence[OperationRecord], can_begin: Callable[[str], bool]) -> None:
        """Hosts of operations that nobody works on are due now, where ``can_begin`` says so."""
        ledger, now = self._context.ledger, self._context.clock.monotonic()
        for operation in open_:
            if operation.id in self._shared.claims or ledger.is_worked_on(operation.id):
                continue
            if is_left(operation, self._context.clock.now()):
                continue
            for host in {task.host for task in unfinished(ledger.tasks(operation.id))}:
                ready = self._shared.patience.ready(operation.id, host)
                if ready and can_begin(host) and self._not_lately(host, now):
                    self._hurried[host] = now
                    self._due_now(host, operation)

    def close_orphans(self, open_: Sequence[OperationRecord], enrolled: Sequence[str]) -> None:
        """End what is about hosts that are not among the enrolled ones."""
        ledger = self._context.ledger
        for operation in open_:
            tasks = ledger.tasks(operation.id)
            close_orphans(ledger, self._shared.claims, tasks, enrolled, self._close)

    def _not_lately(self, host: str, now: float) -> bool:
        return self._hurried.get(host, float("-inf")) + self._interval_s <= now

    def _due_now(self, host: str, operation: OperationRecord) -> None:
        ledger = self._context.ledger
        try:
            ledger.host_due(host, self._context.clock.now())
        except NotFound:
            self.close_orphans([operation], [each.name for each in ledger.hosts()])
