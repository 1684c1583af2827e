"""Leases of operations: the process that works on one, by its lock and by the operation's row.

The lock tells which process lives; the row, refereed by the database, tells whose the
operation is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.operation import OperationMoved, OperationState, Transition
from vgpumgr.store.database.commits import retried
from vgpumgr.store.database.connections import Database
from vgpumgr.store.database.process_locks import (
    ProcessLocks,
    lock_lost,
    operation_ids,
    operation_lock,
)
from vgpumgr.store.ledger import freeze
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.schema import meta, operation, task

_IT = operation.c.id == bindparam("in_operation")
_WHOSE = select(operation.c.worker, operation.c.ended_at).where(_IT).with_for_update()
_MINE = update(operation).where(_IT)


def take_lease(connection: Connection, operation_id: str, claims: ProcessLocks) -> bool:
    """Write down that we work on it now; True where another worker may still be at it.

    Whoever lets go in good order leaves no name behind.
    """
    row = connection.execute(_WHOSE, {"in_operation": operation_id}).one()
    if row.ended_at is not None:
        return False
    connection.execute(_MINE, {"in_operation": operation_id, "worker": claims.worker})
    return claims.may_outlive and row.worker not in {"", claims.worker}


def require_leases(connection: Connection, transitions: Iterable[Transition], worker: str) -> None:
    """ClaimLost when one of the transitions is about an operation that another works on."""
    moves = list(transitions)
    operations = {each.operation for each in moves if isinstance(each, OperationMoved)}
    tasks = {each.task for each in moves if not isinstance(each, OperationMoved)}
    of_tasks = select(task.c.operation).where(task.c.id.in_(tasks))
    which = operation.c.id.in_(operations) | operation.c.id.in_(of_tasks)
    _refuse_others(connection, which, worker)


def require_own_leases(connection: Connection, operations: Collection[str], worker: str) -> None:
    """ClaimLost when another works on one of these operations."""
    _refuse_others(connection, operation.c.id.in_(operations), worker)


def _refuse_others(connection: Connection, which: ColumnElement[bool], worker: str) -> None:
    others = select(operation.c.id).where(which, operation.c.worker.not_in(["", worker]))
    taken = connection.execute(others.limit(1)).scalar()
    if taken is not None:
        raise lock_lost(f"another process took over operation {taken[:8]}")


def ended_operations(transitions: Iterable[Transition]) -> tuple[str, ...]:
    """The operations that end, or wait for somebody, with these transitions."""
    moved = (each for each in transitions if isinstance(each, OperationMoved))
    return tuple(each.operation for each in moved if each.state is not OperationState.RUNNING)


_NOBODYS = (
    update(operation)
    .where(
        operation.c.id.in_(bindparam("in_operations", expanding=True)),
        operation.c.worker == bindparam("in_worker"),
    )
    .values(worker="")
)


_LEFT = update(operation).where(
    operation.c.id.in_(bindparam("in_operations", expanding=True)),
    operation.c.ended_at.is_(None),
)


def leave_leases(connection: Connection, operations: Collection[str], until: float) -> None:
    """A person interrupted them, and may go on with them until then (Unix seconds)."""
    connection.execute(_LEFT.values(left_until=until), {"in_operations": list(operations)})


def release_leases(connection: Connection, operations: Collection[str], worker: str) -> None:
    """Forget that we worked on them; one that another took over stays its."""
    if operations:
        connection.execute(_NOBODYS, {"in_operations": list(operations), "in_worker": worker})


class Leases:
    """What this process works on, in one ledger. ``stamp`` says who writes, and when."""

    def __init__(
        self, database: Database, claims: ProcessLocks, stamp: Callable[[], Stamp]
    ) -> None:
        self._database = database
        self._claims = claims
        self._stamp = stamp
        self._epoch: int | None = None

    def operation(self, operation_id: str) -> bool:
        """Become the only worker of an operation (by its whole id) until it ends or waits, or
        :meth:`close`; False while another live process is.

        Taking one over from a process that may still run raises the epoch.
        """
        if operation_id in operation_ids(self._claims.held()):
            self._claims.require()
            return True
        self.spoken_epoch()
        with self._kept(operation_id):
            claimed = self._claims.claim(operation_lock(operation_id))
            if claimed:
                self._take_over(operation_id)
        return claimed

    def leave(self, until: float) -> None:
        """Write down that a person interrupted what this process works on."""
        held = operation_ids(self._claims.held())
        if held:
            with self._database.write() as connection:
                leave_leases(connection, held, until)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claims.is_held(operation_lock(operation_id))

    def name(self, name: str) -> bool:
        """Hold any other name; False while another live process does."""
        self.spoken_epoch()
        return self._claims.claim(name)

    def is_named(self, name: str) -> bool:
        """Does a live process hold that name? Nothing is claimed."""
        return self._claims.is_held(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claims.release(name)

    @contextmanager
    def begun(self, operation_id: str) -> Iterator[Connection]:
        """The transaction that writes the start of an operation, which is ours from then on."""
        self.spoken_epoch()
        with self._kept(operation_id), self._database.write() as connection:
            yield connection
            self._claims.claim(operation_lock(operation_id))
            take_lease(connection, operation_id, self._claims)
            self._claims.require()

    @contextmanager
    def moved(self, transitions: Sequence[Transition]) -> Iterator[Connection]:
        """A transaction that moves operations which are ours; ClaimLost for another's.

        Those that end or wait are anybody's when it has ended.
        """
        ended = ended_operations(transitions)
        with self._database.write() as connection:
            if self._claims.may_outlive:
                require_leases(connection, transitions, self._claims.worker)
            yield connection
            release_leases(connection, ended, self._claims.worker)
            self._claims.require()
        for operation_id in ended:
            self._claims.release(operation_lock(operation_id))

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        held = operation_ids(self._claims.held())
        with self._database.read() as connection:
            require_own_leases(connection, held, self._claims.worker)
            epoch = _epoch(connection)
        self._claims.require()
        self._epoch = epoch
        return epoch

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: what it read before its first claim, until
        it takes over itself or asks for a fresh one. Another's take-over never renews it unasked.
        """
        if self._epoch is None:
            with self._database.read() as connection:
                self._epoch = _epoch(connection)
        return self._epoch

    def close(self) -> None:
        """Let go of all: whoever goes on with what is open need not fear that we still run."""
        held = operation_ids(self._claims.held())
        with suppress(LedgerError):
            if held:
                with self._database.write() as connection:
                    release_leases(connection, held, self._claims.worker)
        self._claims.close()

    @retried
    def _take_over(self, operation_id: str) -> None:
        with self._database.write() as connection:
            taken_over = take_lease(connection, operation_id, self._claims)
            raised = freeze.raise_epoch(connection, 0, self._stamp()) if taken_over else None
        if raised is not None:
            self._epoch = raised

    @contextmanager
    def _kept(self, operation_id: str) -> Iterator[None]:
        """What is claimed meanwhile is let go when the block fails."""
        before = self._claims.held()
        try:
            yield
        except BaseException:
            if operation_lock(operation_id) not in before:
                self._claims.release(operation_lock(operation_id))
            raise


def _epoch(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.epoch)).scalar_one())
