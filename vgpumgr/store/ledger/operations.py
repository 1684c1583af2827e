"""Operations in the ledger: records with tasks and steps, and the lease that a process has of each.

The lock tells which process lives; the operation's row, refereed by the database, tells whose the
operation is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.actor import Actor, current_actor
from vgpumgr.model.codec import dump, load_mapping, printable
from vgpumgr.model.errors import LedgerError, NotFound
from vgpumgr.model.operation import (
    OperationMoved,
    OperationRecord,
    OperationState,
    OperationSubjects,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
    Transition,
)
from vgpumgr.store.database.connections import Database, retried
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.database.locks import (
    ProcessLocks,
    lock_lost,
    operation_ids,
    operation_lock,
)
from vgpumgr.store.ledger.audit_trail import Stamp, is_one_of
from vgpumgr.store.ledger.epoch import raise_epoch, read_epoch
from vgpumgr.store.schema import operation, step, task
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

_EVERY = select(operation).order_by(operation.c.number.desc())
_OPEN = _EVERY.where(
    is_one_of(operation.c.state, (OperationState.RUNNING, OperationState.INTERRUPTED))
)
_STEPS = (
    select(step)
    .join(task)
    .where(task.c.operation == bindparam("in_operation"))
    .order_by(step.c.seq)
)
_TASKS = select(task).where(task.c.operation == bindparam("in_operation")).order_by(task.c.position)


def list_operations(
    connection: Connection,
    *,
    open_only: bool = False,
    since: float | None = None,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[OperationRecord, ...]:
    """Operations, newest first; ``open_only`` leaves those that run or wait, ``since`` these and
    those that ended after that time (Unix seconds).
    """
    query = (_OPEN if open_only else _EVERY).where(within)
    if since is not None:
        query = query.where(operation.c.ended_at.is_(None) | (operation.c.ended_at > since))
    return tuple(operation_of(row) for row in connection.execute(query))


def get_operation(
    connection: Connection, operation_id: str, *, within: ColumnElement[bool] = ALL_ROWS
) -> OperationRecord:
    """One operation by id or unique prefix; NotFound otherwise."""
    starts = operation.c.id.startswith(operation_id, autoescape=True)
    query = select(operation).where(starts, within).order_by(operation.c.id).limit(4)
    rows = connection.execute(query).all() if operation_id else []
    found = [row for row in rows if row.id == operation_id] or rows
    if len(found) > 1:
        raise NotFound(
            f"more than one operation starts with {operation_id}",
            why=", ".join(row.id for row in found),
            next=f"vgpumgr operation show {found[0].id}",
        )
    if len(found) != 1:
        known = connection.execute(select(operation.c.id).where(within)).scalars()
        raise not_found("operation", operation_id, known)
    return operation_of(found[0])


def without_tenant(connection: Connection, operations: Sequence[str]) -> frozenset[str]:
    """Which of these operations are no tenant's: on VMs of several, or on none."""
    found: set[str] = set()
    for first in range(0, len(operations), _AT_ONCE):
        some = operations[first : first + _AT_ONCE]
        query = select(operation.c.id).where(operation.c.id.in_(some), operation.c.vm_tenant == "")
        found |= set(connection.execute(query).scalars())
    return frozenset(found)


_AT_ONCE = 500


@decodes(operation)
def operation_of(row: Any) -> OperationRecord:
    """The operation of a whole row."""
    return OperationRecord(
        id=row.id,
        kind=row.kind,
        state=OperationState(row.state),
        epoch=row.epoch,
        started_at=row.started_at,
        ended_at=row.ended_at,
        by=row.started_by,
        summary=row.summary,
        worker=row.worker,
        left_until=row.left_until,
        tenant=row.tenant,
        method=row.method,
    )


def operation_row(record: OperationRecord) -> dict[str, object]:
    """The row of an operation."""
    return {
        "id": record.id,
        "kind": record.kind,
        "state": record.state.value,
        "epoch": record.epoch,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "started_by": printable(record.by),
        "summary": printable(record.summary),
        "tenant": printable(record.tenant),
        "method": record.method,
    }


def list_tasks(
    connection: Connection, operation_id: str, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[TaskRecord, ...]:
    """The tasks of an operation with their steps, in the order they were written."""
    steps: dict[str, list[StepRecord]] = {}
    which = {"in_operation": operation_id}
    for row in connection.execute(_STEPS, which):
        steps.setdefault(row.task, []).append(step_of(row))
    rows = connection.execute(_TASKS.where(within), which)
    return tuple(task_of(row, tuple(steps.get(row.id, ()))) for row in rows)


NAMED_SUBJECTS = 3
_NAME = case((task.c.vm != "", task.c.vm), else_=task.c.host).label("name")


def list_subjects(
    connection: Connection, ids: Sequence[str], *, within: ColumnElement[bool] = ALL_ROWS
) -> dict[str, OperationSubjects]:
    """What operations work on, by operation: VMs, and hosts where a task is for no VM."""
    found: dict[str, OperationSubjects] = {}
    for first in range(0, len(ids), _AT_ONCE):
        names = (
            select(task.c.operation, _NAME)
            .where(task.c.operation.in_(ids[first : first + _AT_ONCE]), within)
            .group_by(task.c.operation, _NAME)
            .order_by(func.min(task.c.position))
        )
        for row in connection.execute(names):
            before = found.get(row.operation, OperationSubjects())
            shown = (*before.names, row.name)[:NAMED_SUBJECTS]
            found[row.operation] = OperationSubjects(names=shown, number=before.number + 1)
    return found


@decodes(task)
def task_of(row: Any, steps: tuple[StepRecord, ...]) -> TaskRecord:
    """The task of a whole row, with its steps."""
    return TaskRecord(
        id=row.id,
        operation=row.operation,
        vm_id=row.vm_id,
        vm=row.vm,
        host=row.host,
        verb=row.verb,
        steps=steps,
        state=TaskState(row.state),
        error=row.error,
        peer=row.peer,
    )


def task_row(record: TaskRecord, position: int) -> dict[str, object]:
    """The row of a task; ``position`` is its place in the operation."""
    return {
        "id": record.id,
        "operation": record.operation,
        "position": position,
        "vm_id": record.vm_id,
        "vm": record.vm,
        "host": record.host,
        "verb": record.verb,
        "state": record.state.value,
        "error": printable(record.error),
        "peer": record.peer,
    }


@decodes(step)
def step_of(row: Any) -> StepRecord:
    """The step of a whole row."""
    return StepRecord(
        seq=row.seq,
        kind=row.kind,
        args=load_mapping(row.args),
        state=StepState(row.state),
        detail=row.detail,
        host=row.host,
    )


def step_row(record: StepRecord, task_id: str) -> dict[str, object]:
    """The row of a task's step."""
    return {
        "task": task_id,
        "seq": record.seq,
        "kind": record.kind,
        "args": dump(record.args),
        "state": record.state.value,
        "detail": printable(record.detail),
        "host": record.host,
    }


_OPERATION = operation.c.id == bindparam("in_operation")
_WHOSE = select(operation.c.worker, operation.c.ended_at).where(_OPERATION).with_for_update()
_MINE = update(operation).where(_OPERATION)


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


class LeaseHolder:
    """One process at a ledger, with the operations and names that it holds; threads may share it.

    ``now`` gives Unix seconds, ``own`` is the process's own user, for the trail.
    """

    def __init__(
        self, database: Database, claims: ProcessLocks, now: Callable[[], float], own: Actor
    ) -> None:
        self._database = database
        self._claims = claims
        self._now = now
        self._own = own
        self._epoch: int | None = None

    def actor(self) -> Actor:
        """Who asks in this thread; the process's own user where no other does."""
        return current_actor() or self._own

    def stamp(self, actor: Actor | None = None) -> Stamp:
        """Who writes (or the ``actor`` who asked for it), and when."""
        return Stamp.of(actor or self.actor(), self._now())

    def claim_operation(self, operation_id: str) -> bool:
        """Become the only worker of an operation until it ends or waits, or :meth:`close`; False
        while another live process is.

        Taking one over from a process that may still run raises the epoch.
        """
        whole = self._whole(operation_id)
        if whole in operation_ids(self._claims.held()):
            self._claims.require()
            return True
        self.spoken_epoch()
        with self._kept(whole):
            claimed = self._claims.claim(operation_lock(whole))
            if claimed:
                self._take_over(whole)
        return claimed

    def leave_operations(self, until: float) -> None:
        """Write down that a person interrupted what this process works on."""
        held = operation_ids(self._claims.held())
        if held:
            with self._database.write() as connection:
                leave_leases(connection, held, until)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claims.is_held(operation_lock(self._whole(operation_id)))

    def claim(self, name: str) -> bool:
        """Hold a name (``serve``, ``host:NAME``); False while another live process does."""
        self.spoken_epoch()
        return self._claims.claim(name)

    def is_claimed(self, name: str) -> bool:
        """Does a live process hold that name? Nothing is claimed."""
        return self._claims.is_held(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claims.release(name)

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        held = operation_ids(self._claims.held())
        with self._database.read() as connection:
            require_own_leases(connection, held, self._claims.worker)
            epoch = read_epoch(connection)
        self._claims.require()
        self._epoch = epoch
        return epoch

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: what it read before its first claim, until
        it takes over itself or asks for a fresh one. Another's take-over never renews it unasked.
        """
        if self._epoch is None:
            with self._database.read() as connection:
                self._epoch = read_epoch(connection)
        return self._epoch

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

    def close(self) -> None:
        """Let go of all: whoever goes on with what is open need not fear that we still run."""
        held = operation_ids(self._claims.held())
        with suppress(LedgerError):
            if held:
                with self._database.write() as connection:
                    release_leases(connection, held, self._claims.worker)
        self._claims.close()

    def _whole(self, operation_id: str) -> str:
        """The whole id behind a unique prefix; NotFound otherwise."""
        with self._database.read() as connection:
            return get_operation(connection, operation_id).id

    @retried
    def _take_over(self, operation_id: str) -> None:
        with self._database.write() as connection:
            taken_over = take_lease(connection, operation_id, self._claims)
            raised = raise_epoch(connection, self.stamp(), 0) if taken_over else None
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
