"""Reservations in the ledger: the start of an operation, with the units it takes.

The database is the referee: whatever the caller planned, a unit that has an owner cannot be
inserted again, and what takes more stays within the quotas of its tenant and the licence seats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, bindparam, case, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import Conflict, LedgerError, StaleGeneration
from vgpumgr.model.operation import Reservation
from vgpumgr.store.ledger.allocations import AGAIN, insert_allocations, some
from vgpumgr.store.ledger.audit_trail import Stamp, start_records, write
from vgpumgr.store.ledger.epoch import refuse_frozen
from vgpumgr.store.ledger.gpus import replace_layouts
from vgpumgr.store.ledger.hosts import begin_membership
from vgpumgr.store.ledger.images import begin_images
from vgpumgr.store.ledger.licences import within_seats
from vgpumgr.store.ledger.operations import operation_row, step_row, task_row
from vgpumgr.store.ledger.pools import take_all
from vgpumgr.store.ledger.queue import enter_queue, move_entries
from vgpumgr.store.ledger.quotas import within_quotas
from vgpumgr.store.ledger.request_history import keep_requests
from vgpumgr.store.ledger.transitions import apply_transitions
from vgpumgr.store.ledger.vm_backups import begin_backups
from vgpumgr.store.ledger.vm_names import refuse_held_names
from vgpumgr.store.ledger.vms import change_vms, vm_row
from vgpumgr.store.schema import (
    gpu,
    host,
    operation,
    step,
    task,
    vm,
)

_UNITS = select(gpu.c.id, gpu.c.units).where(gpu.c.id.in_(bindparam("in_gpus", expanding=True)))


def check_slots(connection: Connection, allocations: Sequence[Allocation]) -> None:
    """Every allocation takes units that its GPU has: without, nobody would referee it."""
    wanted = sorted({each.gpu for each in allocations})
    rows = connection.execute(_UNITS, {"in_gpus": wanted})
    units = {row.id: row.units for row in rows}
    for each in allocations:
        if not each.slots:
            raise LedgerError(f"the allocation of {each.gpu} to {each.vm} names no units")
        count = units.get(each.gpu, 0)
        if not 0 <= min(each.slots) <= max(each.slots) < count:
            raise StaleGeneration(
                f"{each.gpu} has no units {each.slots} for {each.vm}",
                why=f"it has {count}",
                next=AGAIN,
            )


Row = dict[str, Any]


def reserve(connection: Connection, stamp: Stamp, start: Reservation) -> None:
    """Write everything, or raise: StaleGeneration (plan again), Conflict (a name is taken),
    QuotaExceeded, NoSeatLeft, or Frozen.
    """
    refuse_frozen(connection, start)
    _raise_generations(connection, _GPUS, start.gpu_generations)
    _raise_generations(connection, _HOSTS, start.host_generations)
    if start.allocations:
        check_slots(connection, start.allocations)
    vms = [vm_row(each) for each in start.vms]
    refuse_held_names(connection, start)
    with within_quotas(connection, start), within_seats(connection, start):
        _insert_vms(connection, vms)
        changes = change_vms(connection, start.changed_vms)
        insert_allocations(connection, start.allocations, start.sharing)
    replace_layouts(connection, start.layouts, start.gpu_generations)
    begin_membership(connection, stamp, start)
    if start.images or start.copies:
        begin_images(connection, stamp, start)
    if start.backups:
        begin_backups(connection, stamp, start)
    if start.queued:
        enter_queue(connection, stamp, start.queued)
    if start.queue:
        move_entries(connection, stamp, start.queue)
    if start.desktops:
        take_all(connection, stamp, start.desktops)
    _insert_journal(connection, stamp, start)
    if start.moved:
        apply_transitions(connection, stamp, start.moved)
    if not start.continued:  # what was asked for was asked for once
        keep_requests(connection, start, vms)
    write(connection, stamp, start_records(start, changes))


def _insert(connection: Connection, table: Table, rows: list[Row]) -> None:
    if rows:
        connection.execute(insert(table), rows)


class _Compared:
    """The statements that compare the generation of a row with the one read, and raise it."""

    def __init__(self, table: Table, is_it: ColumnElement[bool]) -> None:
        self.table = table.name
        self.now = select(table.c.generation).where(is_it)
        self.raise_ = (
            update(table)
            .where(is_it, table.c.generation == bindparam("read"))
            .values(generation=table.c.generation + 1)
        )


_GPUS = _Compared(gpu, gpu.c.id == bindparam("key"))
_HOSTS = _Compared(host, (host.c.name == bindparam("key")) & host.c.removed_at.is_(None))


def _raise_generations(
    connection: Connection, compared: _Compared, read: Mapping[str, int]
) -> None:
    """Compare and raise; in one order everywhere, so that two planners never deadlock."""
    for key, generation in sorted(read.items()):
        raised = {"key": key, "read": generation}
        if connection.execute(compared.raise_, raised).rowcount != 1:
            now = connection.execute(compared.now, {"key": key}).scalar()
            raise StaleGeneration(
                f"{compared.table} {key} changed since it was read",
                why=f"generation {'gone' if now is None else now}, {generation} when planned",
                next=AGAIN,
            )


def _insert_vms(connection: Connection, rows: list[Row]) -> None:
    try:
        _insert(connection, vm, rows)
    except IntegrityError as error:
        raise Conflict(
            "a VM of that name exists",
            why=f"one of {some(str(row['name']) for row in rows)} was created since the plan, "
            "or is named twice",
            next="vgpumgr vm list",
        ) from error


def _insert_journal(connection: Connection, stamp: Stamp, start: Reservation) -> None:
    it = start.operation
    begun = replace(it, by=it.by or stamp.by, tenant=stamp.tenant, method=stamp.method)
    first = _tasks_of(connection, start.operation.id) if start.continued else 0
    tasks = [task_row(each, position) for position, each in enumerate(start.tasks, first)]
    steps = [step_row(each, task_.id) for task_ in start.tasks for each in task_.steps]
    try:
        if not start.continued:
            connection.execute(insert(operation), operation_row(begun))
        _insert(connection, task, tasks)
        _insert(connection, step, steps)
        connection.execute(_WHOSE, {"in_operation": start.operation.id})
    except IntegrityError as error:
        raise LedgerError(
            f"operation {start.operation.id} cannot be written",
            why=f"its id or one of its tasks' is not new ({error.orig})",
            next="vgpumgr operation list",
        ) from error


# The tenant of all its VMs; an operation on VMs of several tenants, or on none, is no tenant's.
_OF_IT = task.c.operation == bindparam("in_operation")
_TENANTS = select(vm.c.tenant).join(task, task.c.vm_id == vm.c.id).where(_OF_IT)
_ONE = _TENANTS.group_by(vm.c.tenant).order_by(vm.c.tenant).limit(1).scalar_subquery()
_MANY = select(func.count(vm.c.tenant.distinct())).join(task, task.c.vm_id == vm.c.id).where(_OF_IT)
_WHOSE = (
    update(operation)
    .where(operation.c.id == bindparam("in_operation"))
    .values(vm_tenant=case((_MANY.scalar_subquery() == 1, _ONE), else_=""))
)


def _tasks_of(connection: Connection, operation_id: str) -> int:
    """How many an open operation has; StaleGeneration for one that has ended."""
    is_it = operation.c.id == operation_id
    row = connection.execute(select(operation.c.ended_at).where(is_it).with_for_update()).one()
    if row.ended_at is not None:
        raise StaleGeneration(f"operation {operation_id[:8]} has ended", next=AGAIN)
    count = select(func.count()).select_from(task).where(task.c.operation == operation_id)
    return int(connection.execute(count).scalar_one())
