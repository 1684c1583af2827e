"""What tenants hold, summed from the rows."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, or_, select
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.holding import held_by_tenants
from vgpumgr.model.quota import Amount
from vgpumgr.store.gpus import list_gpus
from vgpumgr.store.schema import vm
from vgpumgr.store.vms import HELD, OPEN_VMS, allocation_of, vm_of

# Whose VM it is when its spec does not say.
_DEFAULT = "default"


def held(connection: Connection, tenants: Collection[str]) -> dict[str, Amount]:
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
