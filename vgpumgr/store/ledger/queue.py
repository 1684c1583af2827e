"""The queue in the ledger: entries are entered, moved and closed, never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load, printable
from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.operation import TaskMoved, TaskState
from vgpumgr.model.queue import OPEN_QUEUE_STATES, QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmSpec, VmState
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import queue
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

Row = dict[str, Any]

_OPEN = queue.c.closed_at.is_(None)
_AGAIN = "the same command again: it makes a new plan"


def list_queue(
    connection: Connection, names: Collection[str] = (), *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[QueueEntry, ...]:
    """What waits or runs, the longest first; of ``names`` what is closed, too."""
    wanted = or_(_OPEN, queue.c.name.in_(sorted(names))) if names else _OPEN
    query = select(queue).where(wanted, within).order_by(queue.c.since, queue.c.name, queue.c.id)
    return tuple(entry_of(row) for row in connection.execute(query))


def enter_queue(connection: Connection, stamp: Stamp, entries: Sequence[QueueEntry]) -> None:
    """Add entries; StaleGeneration where a VM of that name has an open one."""
    try:
        if entries:
            connection.execute(insert(queue), [_row(each) for each in entries])
    except IntegrityError as error:
        raise StaleGeneration(
            "a VM of that name is in the queue",
            why=f"one of {', '.join(each.name for each in entries[:5])} was entered meanwhile",
            next=_AGAIN,
        ) from error
    write(connection, stamp, [_told(each.state, each.name, each.why) for each in entries])


def move_entries(connection: Connection, stamp: Stamp, moves: Iterable[QueueMoved]) -> None:
    """Move entries; StaleGeneration for one that somebody else moved."""
    for each in moves:
        values: Row = {"state": each.state.value, "why": printable(each.why)}
        if each.state not in OPEN_QUEUE_STATES:
            values["closed_at"] = stamp.at
        if each.state is QueueState.RUNNING and each.before is not QueueState.RUNNING:
            values |= {"started_at": stamp.at, "vm_id": each.vm_id}
        if each.preempted:
            values |= {"preempted": queue.c.preempted + 1}
        moved = update(queue).where(queue.c.id == each.entry, queue.c.state == each.before.value)
        changed = moved.values(generation=queue.c.generation + 1, **values).returning(queue.c.name)
        name = connection.execute(changed).scalar_one_or_none()
        if name is None:
            raise StaleGeneration(
                "the queue changed since it was read",
                why=f"entry {each.entry} is not {each.before} any more",
                next=_AGAIN,
            )
        if each.state not in OPEN_QUEUE_STATES:
            withhold(connection, queue, queue.c.id == each.entry)
        write(connection, stamp, [_told(each.state, name, each.why)])


def cancel_entries(connection: Connection, stamp: Stamp, names: Sequence[str]) -> None:
    """Close what waits; NotFound for what is not there, Conflict for what runs: all or none."""
    there = {each.name: each for each in list_queue(connection)}
    for name in names:
        if name not in there:
            raise not_found("queue", name, there)
        if there[name].state is not QueueState.WAITING:
            raise Conflict(
                f"{name} runs: it no longer waits",
                next=f"vgpumgr vm delete {name} --force",
            )
    cancelled = QueueState.CANCELLED
    move_entries(
        connection,
        stamp,
        (
            QueueMoved(entry=there[each].id, before=QueueState.WAITING, state=cancelled)
            for each in dict.fromkeys(names)
        ),
    )


_OF_VM = select(queue.c.id, queue.c.state).where(_OPEN, queue.c.vm_id == bindparam("in_vm"))


def follow(connection: Connection, stamp: Stamp, ends: Iterable[tuple[str, TaskMoved]]) -> None:
    """What these ends of tasks mean for their VMs' entries: a start that was undone waits again,
    and a VM that was deleted has left.
    """
    for vm_id, ended in ends:
        row = connection.execute(_OF_VM, {"in_vm": vm_id}).one_or_none()
        if row is None:
            continue
        state = QueueState(row.state)
        undone = ended.state is TaskState.UNDONE and state is QueueState.RUNNING
        gone = ended.vm_state is VmState.DELETED
        if undone:
            again = QueueMoved(
                entry=row.id, before=state, state=QueueState.WAITING, why=ended.error
            )
            move_entries(connection, stamp, [again])
            if gone:
                _forget_vm(connection, row.id)
        elif gone:
            left = QueueMoved(entry=row.id, before=state, state=QueueState.DELETED)
            move_entries(connection, stamp, [left])


def _forget_vm(connection: Connection, entry: str) -> None:
    connection.execute(update(queue).where(queue.c.id == entry).values(vm_id=None))


def _told(state: QueueState, name: str, why: str) -> Row:
    return {"event": f"queue.{state}", "vm": name, "detail": why}


@decodes(queue)
def entry_of(row: Any) -> QueueEntry:
    """The queue entry of a whole row."""
    return QueueEntry(
        id=row.id,
        vm=load(VmSpec, row.spec),
        state=QueueState(row.state),
        since=row.since,
        started_at=row.started_at,
        closed_at=row.closed_at,
        vm_id=row.vm_id or "",
        preempted=row.preempted,
        why=row.why,
    )


def _row(entry: QueueEntry) -> Row:
    return {
        "id": entry.id,
        "name": entry.name,
        "spec": dump(entry.vm),
        "state": entry.state.value,
        "since": entry.since,
        "started_at": entry.started_at,
        "vm_id": entry.vm_id or None,
        "preempted": entry.preempted,
        "why": printable(entry.why),
        "generation": 1,
        "tenant": entry.vm.tenant,
    }
