"""Reservations in the ledger: the start of an operation with the units it takes, within quotas.

The database is the referee: whatever the caller planned, a unit that has an owner cannot be
inserted again. Quotas are refereed by sums of what a tenant holds before and after, in the
transaction that takes more and after raising the generation of the tenant's row: another taker for
that tenant waits for the row, and then sums again. So no plan is trusted, and no two takers can
exceed a quota together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, from_plain, load, load_list
from vgpumgr.model.errors import Conflict, LedgerError, NotFound, StaleGeneration
from vgpumgr.model.history import Holding, RequestOutcome, RequestRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.placement import Explanation, Reason
from vgpumgr.model.quota import Amount, Excess, Quota, held_by_tenants, quota_exceeded
from vgpumgr.model.vm import Allocation, VmSpec
from vgpumgr.store.database.redaction import withheld
from vgpumgr.store.ledger.audit_trail import Stamp, start_records, write
from vgpumgr.store.ledger.gpus import list_gpus, replace_layouts
from vgpumgr.store.ledger.hosts import begin_membership
from vgpumgr.store.ledger.images import begin_images
from vgpumgr.store.ledger.operations import operation_row, step_row, task_row
from vgpumgr.store.ledger.pools import take_all
from vgpumgr.store.ledger.queue import enter_queue, move_entries
from vgpumgr.store.ledger.rollback_recovery import refuse_frozen
from vgpumgr.store.ledger.vms import (
    AGAIN,
    HELD,
    OPEN_VMS,
    allocation_of,
    change_vms,
    insert_allocations,
    some,
    vm_of,
    vm_row,
)
from vgpumgr.store.schema import (
    allocation,
    gpu,
    host,
    operation,
    quota,
    request,
    step,
    task,
    vm,
)
from vgpumgr.store.schema.columns import decodes

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
    QuotaExceeded, or Frozen.
    """
    refuse_frozen(connection, start)
    _raise_generations(connection, _GPUS, start.gpu_generations)
    _raise_generations(connection, _HOSTS, start.host_generations)
    if start.allocations:
        check_slots(connection, start.allocations)
    vms = [vm_row(each) for each in start.vms]
    with within_quotas(connection, start):
        _insert_vms(connection, vms)
        changes = change_vms(connection, start.changed_vms)
        insert_allocations(connection, start.allocations)
    replace_layouts(connection, start.layouts, start.gpu_generations)
    begin_membership(connection, stamp, start)
    if start.images or start.copies:
        begin_images(connection, stamp, start)
    if start.queued:
        enter_queue(connection, stamp, start.queued)
    if start.queue:
        move_entries(connection, stamp, start.queue)
    if start.desktops:
        take_all(connection, stamp, start.desktops)
    _insert_journal(connection, stamp, start)
    if not start.continued:  # what was asked for was asked for once
        _keep_requests(connection, start, vms)
    write(connection, stamp, start_records(start, changes))


def refuse(connection: Connection, refused: Sequence[RequestRecord]) -> None:
    """Keep refused requests for history."""
    rows = [
        {
            "at": each.at,
            "vm": each.vm,
            "outcome": RequestOutcome.REFUSED.value,
            "spec": _kept(each.spec, dump(each.spec)),
            "reasons": dump(each.explanation),
        }
        for each in refused
    ]
    _insert(connection, request, rows)


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
    begun = replace(start.operation, by=start.operation.by or stamp.by)
    first = _tasks_of(connection, start.operation.id) if start.continued else 0
    tasks = [task_row(each, position) for position, each in enumerate(start.tasks, first)]
    steps = [step_row(each, task_.id) for task_ in start.tasks for each in task_.steps]
    try:
        if not start.continued:
            connection.execute(insert(operation), operation_row(begun))
        _insert(connection, task, tasks)
        _insert(connection, step, steps)
    except IntegrityError as error:
        raise LedgerError(
            f"operation {start.operation.id} cannot be written",
            why=f"its id or one of its tasks' is not new ({error.orig})",
            next="vgpumgr operation list",
        ) from error


def _tasks_of(connection: Connection, operation_id: str) -> int:
    """How many an open operation has; StaleGeneration for one that has ended."""
    is_it = operation.c.id == operation_id
    row = connection.execute(select(operation.c.ended_at).where(is_it).with_for_update()).one()
    if row.ended_at is not None:
        raise StaleGeneration(f"operation {operation_id[:8]} has ended", next=AGAIN)
    count = select(func.count()).select_from(task).where(task.c.operation == operation_id)
    return int(connection.execute(count).scalar_one())


def _keep_requests(connection: Connection, start: Reservation, vms: list[Row]) -> None:
    rows = [
        {
            "at": start.operation.started_at,
            "vm": row["name"],
            "outcome": RequestOutcome.PLACED.value,
            "spec": _kept(vm.spec, row["spec"]),
            "reasons": "[]",
            "vm_id": row["id"],
        }
        for vm, row in zip(start.vms, vms, strict=True)
    ]
    _insert(connection, request, rows)


def _kept(spec: VmSpec, text: str) -> str:
    """A spec's text as requests keep it: with digests for its cloud-init text."""
    return text if spec.cloud_init is None else withheld(text)


# Whose VM it is when its spec does not say.
_DEFAULT = "default"


def held_by(connection: Connection, tenants: Collection[str]) -> dict[str, Amount]:
    """What each of these tenants holds, where it holds anything."""
    theirs = or_(*(_may_be_of(each) for each in tenants))
    vms = [vm_of(row) for row in connection.execute(OPEN_VMS.where(theirs))]
    parts = HELD.where(HELD.selected_columns.vm_id.in_(select(vm.c.id).where(theirs)))
    allocations = [allocation_of(row) for row in connection.execute(parts)]
    old = any(each.memory_mib is None for each in allocations)
    gpus = list_gpus(connection, None) if old else ()
    mine = [each for each in vms if each.spec.tenant in tenants]
    return held_by_tenants(mine, allocations, gpus)


def _may_be_of(tenant: str) -> ColumnElement[bool]:
    """Its spec's text may say so, which is far quicker than reading every spec."""
    says = vm.c.spec.like(f'%"tenant":%"{tenant}"%')
    return or_(says, vm.c.spec.not_like('%"tenant"%')) if tenant == _DEFAULT else says


_QUOTAS = select(quota).order_by(quota.c.tenant)
_RAISE_QUOTAS = (
    update(quota)
    .where(quota.c.tenant == bindparam("in_tenant"))
    .values(generation=quota.c.generation + 1)
)


def list_quotas(connection: Connection) -> tuple[Quota, ...]:
    """Every tenant's quota, by tenant."""
    return tuple(quota_of(row) for row in connection.execute(_QUOTAS))


def set_quota(connection: Connection, stamp: Stamp, wanted: Quota) -> None:
    """Write a tenant's quota over the one it had."""
    limits = dump(wanted)
    if not connection.execute(
        update(quota)
        .where(quota.c.tenant == wanted.tenant)
        .values(limits=limits, generation=quota.c.generation + 1)
    ).rowcount:
        row = {"tenant": wanted.tenant, "limits": limits, "generation": 1}
        connection.execute(insert(quota).values(row))
    write(connection, stamp, [{"event": "quota.set", "detail": limits}])


def delete_quota(connection: Connection, stamp: Stamp, tenant: str) -> None:
    """Limit a tenant no more; NotFound for one without a quota."""
    if not connection.execute(delete(quota).where(quota.c.tenant == tenant)).rowcount:
        raise NotFound(f"tenant {tenant} has no quota", next="vgpumgr quota list")
    write(connection, stamp, [{"event": "quota.deleted", "detail": tenant}])


@contextmanager
def within_quotas(connection: Connection, start: Reservation) -> Iterator[None]:
    """QuotaExceeded where what the block writes makes a tenant hold more than it may."""
    touched = {vm.spec.tenant for vm in (*start.vms, *start.changed_vms)}
    quotas = list_quotas(connection) if touched else ()
    limited = [each for each in quotas if each.tenant in touched]
    if not limited:
        yield
        return
    tenants = [each.tenant for each in limited]
    connection.execute(_RAISE_QUOTAS, [{"in_tenant": each} for each in tenants])
    before = held_by(connection, tenants)
    yield
    after = held_by(connection, tenants)
    found = [
        excess
        for one in limited
        for excess in _excess(one, before.get(one.tenant, Amount()), after.get(one.tenant))
    ]
    if found:
        raise quota_exceeded(found)


def _excess(limited: Quota, before: Amount, after: Amount | None) -> tuple[Excess, ...]:
    """Only what grows can be too much: a quota may have been lowered under what is held."""
    return limited.exceeded_by(before, (after or Amount()) - before)


@decodes(quota)
def quota_of(row: Any) -> Quota:
    """The quota of a whole row."""
    return replace(load(Quota, row.limits), tenant=row.tenant)


def list_requests(
    connection: Connection, *, since: float = 0.0, vm: str = "", limit: int | None = None
) -> tuple[RequestRecord, ...]:
    """Requests from ``since`` on, the newest first; of one name where ``vm`` is given."""
    query = select(request).where(request.c.at >= since).order_by(request.c.id.desc()).limit(limit)
    if vm:
        query = query.where(request.c.vm == vm)
    return tuple(request_of(row) for row in connection.execute(query))


@decodes(request)
def request_of(row: Any) -> RequestRecord:
    """The request of a whole row."""
    return RequestRecord(
        vm=row.vm,
        at=row.at,
        answer=RequestOutcome(row.outcome),
        spec=load(VmSpec, row.spec),
        explanation=_explanation(row.vm, json.loads(row.reasons)),
    )


def _explanation(vm: str, said: Any) -> Explanation | None:
    """Older rows hold the sentences alone; those of placed requests are empty."""
    if not said:
        return None
    if isinstance(said, list):
        reasons = tuple(Reason(code="", host="", text=_sentence(text)) for text in said)
        return Explanation(vm=vm, host=None, reasons=reasons)
    return from_plain(Explanation, said)


def _sentence(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} is not a sentence")  # noqa: TRY004 - as for any other text
    return text


def list_holdings(connection: Connection) -> tuple[Holding, ...]:
    """Everything that allocations hold or ever held, the oldest first."""
    columns = allocation.c
    query = select(
        columns.id,
        columns.gpu,
        columns.profile,
        columns.slots,
        columns.created_at,
        columns.released_at,
    ).order_by(columns.created_at, columns.id)
    return tuple(_holding(row) for row in connection.execute(query))


@decodes(allocation)
def _holding(row: Any) -> Holding:
    _, gpu, profile, slots, since, until = row
    return Holding(gpu=gpu, profile=profile, units=len(load_list(slots)), since=since, until=until)
