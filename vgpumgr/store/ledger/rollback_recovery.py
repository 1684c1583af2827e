"""Recovery of a ledger that went back in time: rows regained from hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.ledger_state import HostsTruth, Remembered
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger.allocations import insert_allocations
from vgpumgr.store.ledger.audit_trail import (
    Stamp,
    StateChange,
    allocation_record,
    of_allocations,
    vm_record,
    write,
)
from vgpumgr.store.ledger.epoch import frozen
from vgpumgr.store.ledger.transitions import ALLOCATIONS, GIVE_BACK, VMS
from vgpumgr.store.ledger.vms import vm_row
from vgpumgr.store.schema import allocation, gpu, meta, unit, vm

# Databases bound the parameters of one statement.
_AT_ONCE = 5000

_GENERATIONS = {
    table: select(table.c.id, table.c.generation).where(
        table.c.id.in_(bindparam("in_ids", expanding=True))
    )
    for table in (vm, allocation, gpu)
}
_META = select(meta.c.fleet_id, meta.c.epoch)


def remembered(
    connection: Connection,
    vms: Collection[str],
    allocations: Collection[str],
    gpus: Collection[str],
) -> Remembered:
    """Generations of these ids, where the ledger ever had them."""
    row = connection.execute(_META).one()
    return Remembered(
        fleet=row.fleet_id,
        epoch=row.epoch,
        vms=dict(_generations(connection, vm, vms)),
        allocations=dict(_generations(connection, allocation, allocations)),
        gpus=dict(_generations(connection, gpu, gpus)),
    )


def _generations(
    connection: Connection, table: Table, ids: Collection[str]
) -> Iterator[tuple[str, int]]:
    wanted = sorted(ids)
    for start in range(0, len(wanted), _AT_ONCE):
        some = {"in_ids": wanted[start : start + _AT_ONCE]}
        rows = connection.execute(_GENERATIONS[table], some)
        yield from ((row.id, row.generation) for row in rows)


def take_in(connection: Connection, stamp: Stamp, truth: HostsTruth) -> None:
    """Write what the hosts know. Conflict where the ledger is not frozen, StaleGeneration (nothing
    is written) where a unit, a device or a name is somebody else's.
    """
    if frozen(connection) is None:
        raise Conflict("the ledger is not frozen: there is nothing to record", next="vgpumgr drift")
    _forget(connection, stamp, truth.forgotten)
    for id_ in truth.given_back:
        values = {"in_allocation": id_, **stamp.values}
        connection.execute(_FREE_UNITS, values)
        _GIVEN_BACK.run(connection, values)
    for record in truth.changed:
        _change(connection, stamp, record)
    _insert(connection, truth.vms, truth.allocations)
    write(connection, stamp, _told(truth.vms, truth.allocations))
    for id_, generation in sorted(truth.gpus.items()):
        behind = (gpu.c.id == id_, gpu.c.generation < generation)
        connection.execute(update(gpu).where(*behind).values(generation=generation))


_THIS = (
    allocation.c.id == bindparam("in_allocation"),
    allocation.c.released_at.is_(None),
)
_FREE_UNITS = delete(unit).where(unit.c.allocation_id == bindparam("in_allocation"))
_GIVEN_BACK = StateChange(
    update(allocation)
    .where(*_THIS)
    .values(state=AllocationState.RELEASED.value, released_at=bindparam("in_at")),
    of_allocations("allocation.released", *_THIS, by_task=False),
)


def _forget(connection: Connection, stamp: Stamp, ids: Iterable[str]) -> None:
    """Close VMs and give back what they hold."""
    for id_ in ids:
        values = {"in_vm": id_, "in_task": "", "to_end": stamp.at, **stamp.values}
        connection.execute(GIVE_BACK, values)
        ALLOCATIONS[AllocationState.RELEASED].run(connection, values)
        if VMS[VmState.DELETED].run(connection, values) != 1:
            raise StaleGeneration(f"VM {id_} changed since it was read", next=_AGAIN)
        withhold(connection, vm, vm.c.id == id_)


_AGAIN = "vgpumgr store thaw"


def _change(connection: Connection, stamp: Stamp, record: VmRecord) -> None:
    is_it = (vm.c.id == record.id, vm.c.deleted_at.is_(None))
    before = connection.execute(select(vm.c.generation).where(*is_it).with_for_update()).scalar()
    if before is None or before >= record.generation:
        raise StaleGeneration(f"VM {record.name} changed since it was read", next=_AGAIN)
    connection.execute(update(vm).where(*is_it).values(**vm_row(record)))
    told = {"event": "vm.adopted", "vm": record.name, "host": record.host}
    write(connection, stamp, [{**told, "before": before, "after": record.generation}])


def _insert(
    connection: Connection, vms: Iterable[VmRecord], allocations: Iterable[Allocation]
) -> None:
    rows = [vm_row(each) for each in vms]
    try:
        if rows:
            connection.execute(insert(vm), rows)
    except IntegrityError as error:
        why = str(error.orig)
        raise StaleGeneration("a VM of that name was created", why=why, next=_AGAIN) from error
    insert_allocations(connection, tuple(allocations))


def _told(vms: Iterable[VmRecord], allocations: Iterable[Allocation]) -> Iterator[dict[str, Any]]:
    yield from (vm_record(each) for each in vms)
    yield from (allocation_record(each) for each in allocations)
