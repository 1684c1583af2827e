"""Operations in the ledger; each method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from vgpumgr.model.journal import OperationMoved, OperationRecord, TaskRecord, Transition
from vgpumgr.store import hints, journal, moves
from vgpumgr.store.claims import Claims
from vgpumgr.store.database import Database
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried
from vgpumgr.store.writer import GroupWriter


class Journal(Session):
    """Operations with their tasks and steps; what is recorded shares its commit."""

    def __init__(
        self, database: Database, claims: Claims, now: Callable[[], float], by: str = ""
    ) -> None:
        super().__init__(database, claims, now, by)
        self._writer: GroupWriter[Sequence[Transition]] = GroupWriter(self._commit)

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable together; LedgerError when one of them is not legal."""
        if transitions:
            self._writer.submit(transitions)

    @retried
    def _commit(self, batch: Sequence[Sequence[Transition]]) -> None:
        transitions = list(chain.from_iterable(batch))
        with self._claiming.moved(transitions) as connection:
            moves.apply(connection, transitions, self._stamp())
            if any(isinstance(each, OperationMoved) for each in transitions):
                hints.tell(connection)

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations, newest first; ``open_only`` leaves those that run or wait, ``since`` these
        and those that ended after that time.
        """
        with self._database.read() as connection:
            return journal.list_operations(connection, open_only=open_only, since=since)

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""
        with self._database.read() as connection:
            return journal.get_operation(connection, operation_id)

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation (by its whole id) with their steps."""
        with self._database.read() as connection:
            return journal.list_tasks(connection, operation_id)
