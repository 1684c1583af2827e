"""The end of a migration: the VM lies on one host again, and holds units there alone."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Delete, bindparam, delete, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.vm import AllocationState
from vgpumgr.store.audit import Stamp, of_allocations, of_vms
from vgpumgr.store.codec import dump
from vgpumgr.store.schema import allocation, unit, vm
from vgpumgr.store.statements import ALLOCATIONS, Move
from vgpumgr.store.vms import place


def arrive(connection: Connection, vm_id: str, task: str, *, arrived: bool, stamp: Stamp) -> None:
    """End the move of a VM where it was going, or where it was; a VM that stays is left alone."""
    row = connection.execute(select(vm.c.host, vm.c.moving_to).where(vm.c.id == vm_id)).one()
    going = place(row.moving_to)
    if going is None:
        return
    by_task = {"in_task": task, "in_vm": vm_id, **stamp.values}
    if going.host == row.host:
        _keep_one_place(connection, by_task, new=arrived)
    else:
        _keep_only(connection, going.host if arrived else row.host, by_task)
    there: dict[str, object] = {
        "host": going.host,
        "numa_node": going.numa_node,
        "cpus": dump(going.cpus),
    }
    values = {"moving_to": None, **(there if arrived else {})}
    connection.execute(update(vm).where(vm.c.id == vm_id).values(**values))
    connection.execute(_MOVED if arrived else _STAYED, by_task)


_IT = vm.c.id == bindparam("in_vm")
_MOVED, _STAYED = of_vms("vm.moved", _IT), of_vms("vm.stayed", _IT)
_HELD = (allocation.c.vm_id == bindparam("in_vm"), allocation.c.released_at.is_(None))


def _given_back(*where: ColumnElement[bool]) -> tuple[Delete, Move]:
    """Units, then the allocations that held them."""
    held = select(allocation.c.id).where(*where)
    return delete(unit).where(unit.c.allocation_id.in_(held)), Move(
        update(allocation)
        .where(*where)
        .values(state=AllocationState.RELEASED.value, released_at=bindparam("in_at")),
        of_allocations("allocation.released", *where),
    )


_GIVE_BACK, _RELEASE = _given_back(*_HELD, allocation.c.host != bindparam("in_host"))
_TAKEN = allocation.c.state == AllocationState.RESERVED.value
_NEW, _OLD = _given_back(*_HELD, _TAKEN), _given_back(*_HELD, ~_TAKEN)


def _keep_one_place(connection: Connection, by_task: Mapping[str, object], *, new: bool) -> None:
    """Of a VM that moves within its host: what it takes is reserved yet, what it had is not."""
    give_back, release = _OLD if new else _NEW
    connection.execute(give_back, by_task)
    release.run(connection, by_task)
    ALLOCATIONS[AllocationState.ACTIVE].run(connection, by_task)


def _keep_only(connection: Connection, host: str, by_task: Mapping[str, object]) -> None:
    """Give back what the VM holds on any other host."""
    values = {**by_task, "in_host": host}
    connection.execute(_GIVE_BACK, values)
    _RELEASE.run(connection, values)
    ALLOCATIONS[AllocationState.ACTIVE].run(connection, values)
