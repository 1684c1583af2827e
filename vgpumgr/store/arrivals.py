"""The end of a migration: the VM lies on one host again, and holds units there alone."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from vgpumgr.model.vm import AllocationState
from vgpumgr.store.codec import dump
from vgpumgr.store.schema import allocation, unit, vm
from vgpumgr.store.vms import place


def arrive(connection: Connection, vm_id: str, *, arrived: bool, now: float) -> None:
    """End the move of a VM where it was going, or where it was; a VM that stays is left alone."""
    row = connection.execute(select(vm.c.host, vm.c.moving_to).where(vm.c.id == vm_id)).one()
    going = place(row.moving_to)
    if going is None:
        return
    _keep_only(connection, vm_id, going.host if arrived else row.host, now)
    there: dict[str, object] = {
        "host": going.host,
        "numa_node": going.numa_node,
        "cpus": dump(going.cpus),
    }
    values = {"moving_to": None, **(there if arrived else {})}
    connection.execute(update(vm).where(vm.c.id == vm_id).values(**values))


def _keep_only(connection: Connection, vm_id: str, host: str, now: float) -> None:
    """Give back what the VM holds on any other host."""
    held = (allocation.c.vm_id == vm_id) & allocation.c.released_at.is_(None)
    left = held & (allocation.c.host != host)
    ids = select(allocation.c.id).where(left)
    connection.execute(delete(unit).where(unit.c.allocation_id.in_(ids)))
    released = {"state": AllocationState.RELEASED.value, "released_at": now}
    connection.execute(update(allocation).where(left).values(**released))
    connection.execute(update(allocation).where(held).values(state=AllocationState.ACTIVE.value))
