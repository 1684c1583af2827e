"""Is a host in use? Nothing is said of a host whose VMs and allocations are closed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from vgpumgr.model.errors import Conflict
from vgpumgr.store.schema import allocation, vm
from vgpumgr.store.vms import place


def refuse_used(connection: Connection, name: str) -> None:
    """Conflict while a VM or an allocation is on the host, or a VM on its way there."""
    vms = _count(connection, vm, name, vm.c.deleted_at.is_(None)) + _coming(connection, name)
    held = _count(connection, allocation, name, allocation.c.released_at.is_(None))
    if vms or held:
        raise Conflict(
            f"host {name} is in use",
            why=f"{vms} VMs and {held} allocations are on it",
            next=f"vgpumgr vm list, then delete those on {name}",
        )


def _coming(connection: Connection, name: str) -> int:
    """The VMs that are moving to the host."""
    moving = select(vm.c.moving_to).where(vm.c.deleted_at.is_(None), vm.c.moving_to.is_not(None))
    places = (place(text) for text in connection.execute(moving).scalars())
    return sum(each is not None and each.host == name for each in places)


def _count(connection: Connection, table: Any, name: str, open_: Any) -> int:
    query = select(func.count()).select_from(table).where(table.c.host == name, open_)
    return int(connection.execute(query).scalar_one())
