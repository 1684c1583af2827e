"""Quotas of tenants in the ledger, and whether a reservation stays within them.

Quotas are refereed by sums of what a tenant holds before and after, in the transaction that takes
more and after raising the generation of the tenant's row: another taker for that tenant waits for
the row, and then sums again. So no plan is trusted, and no two takers can exceed a quota together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import NotFound
from vgpumgr.model.operation import Reservation
from vgpumgr.model.quota import Amount, Excess, Quota, held_by_tenants, quota_exceeded
from vgpumgr.store.ledger.allocations import HELD, allocation_of
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.gpus import list_gpus
from vgpumgr.store.ledger.images import list_images
from vgpumgr.store.ledger.vms import OPEN_VMS, vm_of
from vgpumgr.store.schema import quota, vm
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

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
    return held_by_tenants(mine, allocations, gpus, list_images(connection))


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


def list_quotas(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[Quota, ...]:
    """Every tenant's quota, by tenant."""
    return tuple(quota_of(row) for row in connection.execute(_QUOTAS.where(within)))


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
