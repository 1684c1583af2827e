"""Is the queue whole? Each entry against its own state, and against the VM that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, or_, select

from vgpumgr.model.journal import FINAL_TASKS
from vgpumgr.model.keeping import Problem
from vgpumgr.model.queued import OPEN, QueueState
from vgpumgr.model.vm import VmState
from vgpumgr.store.schema import queue, task, vm

_OPEN = [state.value for state in OPEN]
_DONE = [state.value for state in FINAL_TASKS]
_RUNS = frozenset({VmState.ACTIVE.value, VmState.MIGRATING.value, VmState.RESERVED.value})
_SHELVED = VmState.SHELVED.value

# Open by its state or by its time; it says both.
_ENTRIES = (
    select(queue, vm.c.name.label("vm_name"), vm.c.state.label("vm_state"))
    .outerjoin(vm, vm.c.id == queue.c.vm_id)
    .where(or_(queue.c.closed_at.is_(None), queue.c.state.in_(_OPEN)))
    .order_by(queue.c.name, queue.c.id)
)
_WORKED_ON = select(task.c.vm_id).where(task.c.state.not_in(_DONE))


def queue_problems(connection: Connection) -> Iterator[Problem]:
    """Entries that nobody would bring in order. One whose VM an operation is about is on its way:
    the operation moves it.
    """
    on_its_way = set(connection.execute(_WORKED_ON).scalars())
    for row in connection.execute(_ENTRIES):
        why = _why(row) if row.vm_id not in on_its_way else ""
        if why:
            what = f"{row.name} is {row.state} in the queue"
            yield Problem(what=what, why=why, next=_next(row))


def _why(row: Row[Any]) -> str:
    if row.closed_at is None and row.state not in _OPEN:
        return "it is not closed"
    if row.closed_at is not None:
        return "it is closed"
    if row.vm_id is not None and row.vm_name != row.name:
        return f"it names VM {row.vm_name or row.vm_id}"
    runs = row.state == QueueState.RUNNING.value
    if runs and row.vm_state not in _RUNS:
        return f"its VM is {row.vm_state}" if row.vm_state else "it names no VM"
    if not runs and row.vm_state not in (None, _SHELVED):
        return f"its VM is {row.vm_state}"
    return ""


def _next(row: Row[Any]) -> str:
    """What is left of its VM goes with the VM; what only waits is taken off the queue."""
    if row.vm_state is not None and row.vm_state != VmState.DELETED.value:
        return f"vgpumgr vm show {row.name}, then vgpumgr vm delete {row.name} --force"
    if row.closed_at is None and row.state == QueueState.WAITING.value:
        return f"vgpumgr queue cancel {row.name}, then apply its file again"
    return "vgpumgr drift, then vgpumgr store restore BACKUP if the hosts agree with it"
