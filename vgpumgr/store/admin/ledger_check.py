"""Check of a whole ledger: contradictions between rows, and access of other users to its file."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_ as operator_or_
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select

from vgpumgr.model.codec import load_mapping
from vgpumgr.model.image import CopyState
from vgpumgr.model.ledger_state import LedgerProblem
from vgpumgr.model.operation import FINAL_TASKS, TaskState
from vgpumgr.model.queue import OPEN_QUEUE_STATES, QueueState
from vgpumgr.model.vm import VmState
from vgpumgr.store.admin.row_check import OPEN, StepReader, stored_otherwise, unreadable
from vgpumgr.store.database.faults import RESTORE
from vgpumgr.store.schema import (
    MEMORY,
    VF,
    allocation,
    desktop,
    gpu,
    image,
    image_copy,
    operation,
    pool,
    pool_session,
    queue,
    task,
    unit,
    vm,
)

_ON_THE_WAY = (CopyState.IMPORTING.value, CopyState.LEAVING.value)
_ENDED = tuple(state.value for state in FINAL_TASKS)


def image_problems(connection: Connection) -> Iterator[LedgerProblem]:
    """Copies that come or leave, and no operation is about them."""
    working = select(task.c.vm_id).where(task.c.state.not_in(_ENDED), task.c.vm_id.is_not(None))
    found = (
        select(image_copy.c.host, image_copy.c.state, image.c.name, image.c.version)
        .join(image, image.c.id == image_copy.c.image)
        .where(
            image_copy.c.gone_at.is_(None),
            image_copy.c.state.in_(_ON_THE_WAY),
            image_copy.c.id.not_in(working),
        )
        .order_by(image.c.name, image.c.version, image_copy.c.host)
    )
    for row in connection.execute(found):
        yield LedgerProblem(
            what=f"image {row.name}@{row.version} on {row.host} is {row.state}",
            why="no operation is about it",
            next="vgpumgr store restore BACKUP",
        )


_OPEN_DESKTOPS = desktop.c.closed_at.is_(None)
_POOL_NEXT = "vgpumgr pool list, then vgpumgr store restore BACKUP if a desktop is not as it says"


def pool_problems(connection: Connection) -> Iterator[LedgerProblem]:
    """Desktops of no pool, of one VM, and sessions that are not both in row and history."""
    sessions = select(pool_session.c.desktop).where(pool_session.c.closed_at.is_(None))
    on = frozenset(connection.execute(sessions).scalars())
    rows = connection.execute(
        select(desktop, pool.c.closed_at.label("pool_gone"))
        .join(pool, pool.c.id == desktop.c.pool)
        .where(_OPEN_DESKTOPS)
        .order_by(desktop.c.name)
    ).all()
    held = Counter(row.vm_id for row in rows if row.vm_id is not None)
    for row in rows:
        name = f"desktop {row.name}"
        if row.pool_gone is not None:
            yield LedgerProblem(
                what=f"{name} is left over", why="its pool was deleted", next=_POOL_NEXT
            )
        if held[row.vm_id] > 1:
            yield LedgerProblem(
                what=f"{name} has the VM of another desktop",
                why=f"{row.vm_id} belongs to two desktops",
                next=_POOL_NEXT,
            )
        if (row.id in on) != bool(row.session):
            why = "its row and the history of sessions differ"
            yield LedgerProblem(
                what=f"{name} is in an unclear state of use", why=why, next=_POOL_NEXT
            )


_OPEN_ENTRIES = [state.value for state in OPEN_QUEUE_STATES]
_DONE_TASKS = [state.value for state in FINAL_TASKS]
_RUNS = frozenset({VmState.ACTIVE.value, VmState.MIGRATING.value, VmState.RESERVED.value})
_SHELVED = VmState.SHELVED.value

# Open by its state or by its time; it says both.
_ENTRIES = (
    select(queue, vm.c.name.label("vm_name"), vm.c.state.label("vm_state"))
    .outerjoin(vm, vm.c.id == queue.c.vm_id)
    .where(or_(queue.c.closed_at.is_(None), queue.c.state.in_(_OPEN_ENTRIES)))
    .order_by(queue.c.name, queue.c.id)
)
_WORKED_ON = select(task.c.vm_id).where(task.c.state.not_in(_DONE_TASKS))


def queue_problems(connection: Connection) -> Iterator[LedgerProblem]:
    """Entries that nobody would bring in order. One whose VM an operation is about is on its way:
    the operation moves it.
    """
    on_its_way = set(connection.execute(_WORKED_ON).scalars())
    for row in connection.execute(_ENTRIES):
        why = _why(row) if row.vm_id not in on_its_way else ""
        if why:
            what = f"{row.name} is {row.state} in the queue"
            yield LedgerProblem(what=what, why=why, next=_next(row))


def _why(row: Row[Any]) -> str:
    if row.closed_at is None and row.state not in _OPEN_ENTRIES:
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


_BESIDE = ("", "-wal", "-shm")  # what SQLite keeps of one database
_WRITERS = stat.S_IWGRP | stat.S_IWOTH
_READERS = stat.S_IROTH | stat.S_IXOTH


def exposures(path: Path) -> Iterator[LedgerProblem]:
    """Every way in that the file system leaves to others; none where there is no file.

    A ledger holds what VMs start with, and says which host is ours: who writes to it commands the
    hosts. Its group may read it.
    """
    real = path.resolve()
    files = [(each, each.stat()) for each in _files(real) if each.exists()]
    yield from _of_files([each for each in files if each[1].st_mode & (_READERS | _WRITERS)])
    for each, found in files:
        yield from _of_owner(each, found)
    if files:
        yield from _of_folder(real.parent)


def _files(real: Path) -> tuple[Path, ...]:
    return tuple(real.with_name(real.name + each) for each in _BESIDE)


def _of_files(exposed: list[tuple[Path, os.stat_result]]) -> Iterator[LedgerProblem]:
    """One word for all: SQLite gives the others the mode of the first."""
    if exposed:
        bits = reduce(operator_or_, (found.st_mode for _, found in exposed))
        ways = " and ".join(
            word for word, way in (("read", _READERS), ("change", _WRITERS)) if bits & way
        )
        mend = shlex.join(["chmod", "600", *(str(path) for path, _ in exposed)])
        yield _problem(f"others may {ways} {exposed[0][0]}", exposed[0][1], mend)


def _of_folder(folder: Path) -> Iterator[LedgerProblem]:
    found = folder.stat()
    if found.st_mode & stat.S_IWOTH:
        what = f"others may put another ledger into {folder}"
        yield _problem(what, found, f"chmod 700 {shlex.quote(str(folder))}")
    yield from _of_owner(folder, found)


def _of_owner(path: Path, found: os.stat_result) -> Iterator[LedgerProblem]:
    """Root may do everything anyway, and we work with what is ours."""
    if found.st_uid not in (0, os.geteuid()):
        quoted = shlex.quote(str(path))
        what, why = f"{path} is another user's", f"its owner is uid {found.st_uid}"
        yield LedgerProblem(
            what=what, why=why, next=f"ls -ld {quoted}; chown {os.geteuid()} {quoted}"
        )


def _problem(what: str, found: os.stat_result, mend: str) -> LedgerProblem:
    return LedgerProblem(what=what, why=f"its mode is {stat.S_IMODE(found.st_mode):04o}", next=mend)


_ENDED_TASKS = tuple(state.value for state in FINAL_TASKS)
_REPORT = "vgpumgr drift, then vgpumgr store restore BACKUP if the hosts agree with it"


def ledger_problems(
    connection: Connection,
    is_worked_on: Callable[[str], bool],
    read_step: StepReader | None = None,
) -> Iterator[LedgerProblem]:
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


def damages(connection: Connection) -> Iterator[LedgerProblem]:
    """What SQLite finds in its own file; PostgreSQL watches over its own."""
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA quick_check(5)"):
        if line != "ok":
            yield LedgerProblem(what="the file is damaged", why=str(line), next=RESTORE)
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        why = f"its row in {parent} is gone"
        yield LedgerProblem(what=f"{table} {row} is dangling", why=why, next=RESTORE)


def _promises(connection: Connection) -> Iterator[LedgerProblem]:
    """A server that may forget what it said it kept."""
    if connection.dialect.name != "postgresql":
        return
    for name in ("fsync", "full_page_writes"):
        if connection.exec_driver_sql(f"SHOW {name}").scalar() != "on":
            yield LedgerProblem(
                what=f"the server runs with {name} = off",
                why="a power failure can lose or damage committed data",
                next=f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()",
            )


def _units(connection: Connection) -> Iterator[LedgerProblem]:
    """What an allocation says it holds is what the units say, both ways. A VM that gets a seat in
    the place of its own parts holds the units of both once.
    """
    held: dict[str, set[tuple[str, str, int]]] = {}
    for row in connection.execute(select(unit)):
        held.setdefault(row.allocation_id, set()).add((row.gpu_id, row.kind, row.slot))
    moving = _of_moving_vms(connection, held)
    for row in connection.execute(select(allocation, gpu.c.units.label("there")).join(gpu)):
        has = held.get(row.id, set())
        says: set[tuple[str, str, int]] = set() if row.released_at is not None else _named(row)
        name = f"allocation {row.id} of {row.vm}"
        if has - says:
            why = f"it holds {_slots(has - says)} of {row.gpu} that it does not list"
            yield LedgerProblem(what=f"{name} holds too much", why=why, next=_REPORT)
        has = has | moving.get(row.vm_id, set())
        if says - has:
            why = f"it lists {_slots(says - has)} of {row.gpu} that it does not hold"
            yield LedgerProblem(what=f"{name} holds too little", why=why, next=_REPORT)
        if any(kind == MEMORY and slot >= row.there for _, kind, slot in says):
            why = f"{row.gpu} has {row.there}"
            yield LedgerProblem(what=f"{name} is beyond its GPU", why=why, next=_REPORT)


def _of_moving_vms(
    connection: Connection, held: Mapping[str, set[tuple[str, str, int]]]
) -> dict[str, set[tuple[str, str, int]]]:
    """The units of each VM that moves, by its id."""
    found: dict[str, set[tuple[str, str, int]]] = {}
    moving = select(allocation.c.id, allocation.c.vm_id).join(vm).where(vm.c.moving_to.is_not(None))
    for row in connection.execute(moving):
        found.setdefault(row.vm_id, set()).update(held.get(row.id, ()))
    return found


def _holders(connection: Connection) -> Iterator[LedgerProblem]:
    """Whoever holds something exists, and is where it holds it."""
    held = select(allocation, vm.c.state.label("vm_state"), vm.c.host.label("vm_host")).join(vm)
    for row in connection.execute(held.where(allocation.c.released_at.is_(None))):
        name = f"allocation {row.id} of {row.vm}"
        if row.vm_state == VmState.DELETED.value:
            yield LedgerProblem(what=f"{name} is held", why="the VM is deleted", next=_REPORT)
        elif row.vm_host != row.host and row.vm_state != VmState.MIGRATING.value:
            why = f"the VM is on {row.vm_host}"
            yield LedgerProblem(what=f"{name} is on {row.host}", why=why, next=_REPORT)


def _operations(
    connection: Connection, is_worked_on: Callable[[str], bool]
) -> Iterator[LedgerProblem]:
    """Every operation that waits for somebody, and tasks whose operation has ended."""
    for row in connection.execute(select(operation).where(operation.c.state.in_(OPEN))):
        if not is_worked_on(row.id):
            why = "no process works on it" + (f"; {row.summary}" if row.summary else "")
            resume = f"vgpumgr operation resume {row.id[:8]}"
            yield LedgerProblem(
                what=f"{row.kind} {row.id[:8]} is not finished", why=why, next=resume
            )
    ended = task.c.state.not_in(
        [*_ENDED_TASKS, TaskState.PENDING.value]
    ) & operation.c.state.not_in(OPEN)
    for row in connection.execute(select(task).join(operation).where(ended)):
        why = f"its operation {row.operation[:8]} has ended"
        yield LedgerProblem(what=f"{row.verb} {row.vm} is {row.state}", why=why, next=_REPORT)


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
