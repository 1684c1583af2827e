"""Operations whose worker died, as soon as it is dead: the turns of their hosts are due at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vgpumgr.engine.reconcile.claims import Close
from vgpumgr.engine.reconcile.context import Shared
from vgpumgr.engine.reconcile.orphans import close_orphans
from vgpumgr.engine.running.leftovers import unfinished
from vgpumgr.engine.running.status import is_left
from vgpumgr.engine.session import Session
from vgpumgr.model.errors import NotFound
from vgpumgr.model.journal import OperationRecord


class LeftBehind:
    """Looks for them once a round; a host is hurried once per interval."""

    def __init__(self, session: Session, shared: Shared, interval_s: float, close: Close) -> None:
        self._session = session
        self._shared = shared
        self._interval_s = interval_s
        self._close = close
        self._hurried: dict[str, float] = {}

    def begun(self, host: str) -> None:
        """Its turn began: it may be hurried again."""
        self._hurried.pop(host, None)

    def make_due(self, open_: Sequence[OperationRecord], can_begin: Callable[[str], bool]) -> None:
        """Hosts of operations that nobody works on are due now, where ``can_begin`` says so."""
        ledger, now = self._session.ledger, self._session.clock.monotonic()
        for operation in open_:
            if operation.id in self._shared.claims or ledger.is_worked_on(operation.id):
                continue
            if is_left(operation, self._session.clock.now()):
                continue
            for host in {task.host for task in unfinished(ledger.tasks(operation.id))}:
                ready = self._shared.patience.ready(operation.id, host)
                if ready and can_begin(host) and self._not_lately(host, now):
                    self._hurried[host] = now
                    self._due_now(host, operation)

    def close_orphans(self, open_: Sequence[OperationRecord], enrolled: Sequence[str]) -> None:
        """End what is about hosts that are not among the enrolled ones."""
        ledger = self._session.ledger
        for operation in open_:
            tasks = ledger.tasks(operation.id)
            close_orphans(ledger, self._shared.claims, tasks, enrolled, self._close)

    def _not_lately(self, host: str, now: float) -> bool:
        return self._hurried.get(host, float("-inf")) + self._interval_s <= now

    def _due_now(self, host: str, operation: OperationRecord) -> None:
        ledger = self._session.ledger
        try:
            ledger.host_due(host, self._session.clock.now())
        except NotFound:
            self.close_orphans([operation], [each.name for each in ledger.hosts()])
