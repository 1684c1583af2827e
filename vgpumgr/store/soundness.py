"""Is a ledger whole? What its database, its tables and its rows say against each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, func, select

from vgpumgr.model.journal import FINAL_TASKS, TaskState
from vgpumgr.model.keeping import Problem
from vgpumgr.model.vm import VmState
from vgpumgr.store.codec import load_mapping
from vgpumgr.store.faults import RESTORE
from vgpumgr.store.image_soundness import image_problems
from vgpumgr.store.pool_soundness import pool_problems
from vgpumgr.store.queue_soundness import queue_problems
from vgpumgr.store.row_soundness import OPEN, StepReader, stored_otherwise, unreadable
from vgpumgr.store.schema import MEMORY, VF, allocation, gpu, operation, task, unit, vm

_DONE = tuple(state.value for state in FINAL_TASKS)
_REPORT = "vgpumgr drift, then vgpumgr store restore BACKUP if the hosts agree with it"


def problems(
    connection: Connection,
    is_worked_on: Callable[[str], bool],
    read_step: StepReader | None = None,
) -> Iterator[Problem]:
    """Every problem of a ledger of today's schema. ``is_worked_on`` asks about an operation,
    ``read_step`` reads a step. Rows that cannot be read are not held against others.
    """
    yield from damages(connection)
    broken = [*stored_otherwise(connection)] or [*unreadable(connection, read_step)]
    if broken:
        yield from broken
        return
    yield from _promises(connection)
    yield from _units(connection)
    yield from _holders(connection)
    yield from _operations(connection, is_worked_on)
    yield from queue_problems(connection)
    yield from pool_problems(connection)
    yield from image_problems(connection)


def damages(connection: Connection) -> Iterator[Problem]:
    """What SQLite finds in its own file; PostgreSQL watches over its own."""
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA quick_check(5)"):
        if line != "ok":
            yield Problem(what="the file is damaged", why=str(line), next=RESTORE)
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        why = f"its row in {parent} is gone"
        yield Problem(what=f"{table} {row} is dangling", why=why, next=RESTORE)


def _promises(connection: Connection) -> Iterator[Problem]:
    """A server that may forget what it said it kept."""
    if connection.dialect.name != "postgresql":
        return
    for name in ("fsync", "full_page_writes"):
        if connection.exec_driver_sql(f"SHOW {name}").scalar() != "on":
            yield Problem(
                what=f"the server runs with {name} = off",
                why="a power failure can lose or damage committed data",
                next=f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()",
            )


def _units(connection: Connection) -> Iterator[Problem]:
    """What an allocation says it holds is what the units say, both ways."""
    held: dict[str, set[tuple[str, str, int]]] = {}
    for row in connection.execute(select(unit)):
        held.setdefault(row.allocation_id, set()).add((row.gpu_id, row.kind, row.slot))
    for row in connection.execute(select(allocation, gpu.c.units.label("there")).join(gpu)):
        has = held.get(row.id, set())
        says: set[tuple[str, str, int]] = set() if row.released_at is not None else _named(row)
        name = f"allocation {row.id} of {row.vm}"
        if has - says:
            why = f"it holds {_slots(has - says)} of {row.gpu} that it does not list"
            yield Problem(what=f"{name} holds too much", why=why, next=_REPORT)
        if says - has:
            why = f"it lists {_slots(says - has)} of {row.gpu} that it does not hold"
            yield Problem(what=f"{name} holds too little", why=why, next=_REPORT)
        if any(kind == MEMORY and slot >= row.there for _, kind, slot in says):
            why = f"{row.gpu} has {row.there}"
            yield Problem(what=f"{name} is beyond its GPU", why=why, next=_REPORT)


def _holders(connection: Connection) -> Iterator[Problem]:
    """Whoever holds something exists, and is where it holds it."""
    held = select(allocation, vm.c.state.label("vm_state"), vm.c.host.label("vm_host")).join(vm)
    for row in connection.execute(held.where(allocation.c.released_at.is_(None))):
        name = f"allocation {row.id} of {row.vm}"
        if row.vm_state == VmState.DELETED.value:
            yield Problem(what=f"{name} is held", why="the VM is deleted", next=_REPORT)
        elif row.vm_host != row.host and row.vm_state != VmState.MIGRATING.value:
            why = f"the VM is on {row.vm_host}"
            yield Problem(what=f"{name} is on {row.host}", why=why, next=_REPORT)


def _operations(connection: Connection, is_worked_on: Callable[[str], bool]) -> Iterator[Problem]:
    """Every operation that waits for somebody, and tasks whose operation has ended."""
    for row in connection.execute(select(operation).where(operation.c.state.in_(OPEN))):
        if not is_worked_on(row.id):
            why = "no process works on it" + (f"; {row.summary}" if row.summary else "")
            resume = f"vgpumgr operation resume {row.id[:8]}"
            yield Problem(what=f"{row.kind} {row.id[:8]} is not finished", why=why, next=resume)
    ended = task.c.state.not_in([*_DONE, TaskState.PENDING.value]) & operation.c.state.not_in(OPEN)
    for row in connection.execute(select(task).join(operation).where(ended)):
        why = f"its operation {row.operation[:8]} has ended"
        yield Problem(what=f"{row.verb} {row.vm} is {row.state}", why=why, next=_REPORT)


def open_operations(connection: Connection) -> int:
    """How many operations run or wait."""
    query = select(func.count()).select_from(operation).where(operation.c.state.in_(OPEN))
    return int(connection.execute(query).scalar_one())


def _named(row: Any) -> set[tuple[str, str, int]]:
    taken = {(row.gpu, MEMORY, slot) for slot in json.loads(row.slots)}
    vf = load_mapping(row.extra).get("vf")
    return taken | {(row.gpu, VF, vf)} if isinstance(vf, int) else taken


def _slots(units: set[tuple[str, str, int]]) -> str:
    return ", ".join(f"{kind} {slot}" for _, kind, slot in sorted(units)[:8])
