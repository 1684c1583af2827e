"""Whose an operation is, in its own row: the database referees where locks alone cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.journal import OperationMoved, OperationState, Transition
from vgpumgr.store.claims import Claims, lost
from vgpumgr.store.schema import operation, task

_IT = operation.c.id == bindparam("in_operation")
_WHOSE = select(operation.c.worker, operation.c.ended_at).where(_IT).with_for_update()
_MINE = update(operation).where(_IT)


def take(connection: Connection, operation_id: str, claims: Claims) -> bool:
    """Write down that we work on it now; True where another worker may still be at it.

    Whoever lets go in good order leaves no name behind.
    """
    row = connection.execute(_WHOSE, {"in_operation": operation_id}).one()
    if row.ended_at is not None:
        return False
    connection.execute(_MINE, {"in_operation": operation_id, "worker": claims.worker})
    return claims.may_outlive and row.worker not in {"", claims.worker}


def require(connection: Connection, transitions: Iterable[Transition], worker: str) -> None:
    """ClaimLost when one of the transitions is about an operation that another works on."""
    moves = list(transitions)
    operations = {each.operation for each in moves if isinstance(each, OperationMoved)}
    tasks = {each.task for each in moves if not isinstance(each, OperationMoved)}
    of_tasks = select(task.c.operation).where(task.c.id.in_(tasks))
    which = operation.c.id.in_(operations) | operation.c.id.in_(of_tasks)
    _refuse_others(connection, which, worker)


def require_own(connection: Connection, operations: Collection[str], worker: str) -> None:
    """ClaimLost when another works on one of these operations."""
    _refuse_others(connection, operation.c.id.in_(operations), worker)


def _refuse_others(connection: Connection, which: ColumnElement[bool], worker: str) -> None:
    others = select(operation.c.id).where(which, operation.c.worker.not_in(["", worker]))
    taken = connection.execute(others.limit(1)).scalar()
    if taken is not None:
        raise lost(f"another process took over operation {taken[:8]}")


def ended(transitions: Iterable[Transition]) -> tuple[str, ...]:
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


def leave(connection: Connection, operations: Collection[str], until: float) -> None:
    """A person interrupted them, and may go on with them until then (Unix seconds)."""
    connection.execute(_LEFT.values(left_until=until), {"in_operations": list(operations)})


def let_go(connection: Connection, operations: Collection[str], worker: str) -> None:
    """Forget that we worked on them; one that another took over stays its."""
    if operations:
        connection.execute(_NOBODYS, {"in_operations": list(operations), "in_worker": worker})
