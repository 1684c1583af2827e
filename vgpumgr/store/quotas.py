"""Quotas of tenants: rows ↔ values, and the referee of what a reservation takes.

The referee sums what a tenant holds before and after, in the transaction that takes it and after
raising the generation of the tenant's row: whoever else takes for that tenant waits for the row,
and then sums what is there. So nobody's plan is trusted, and no two can go beyond it together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from vgpumgr.model.errors import NotFound
from vgpumgr.model.holding import quota_exceeded
from vgpumgr.model.journal import Reservation
from vgpumgr.model.quota import Amount, Excess, Quota
from vgpumgr.store.audit import Stamp, write
from vgpumgr.store.codec import dump, load
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import quota
from vgpumgr.store.tenants import held

_EVERY = select(quota).order_by(quota.c.tenant)
_RAISE = (
    update(quota)
    .where(quota.c.tenant == bindparam("in_tenant"))
    .values(generation=quota.c.generation + 1)
)


def list_quotas(connection: Connection) -> tuple[Quota, ...]:
    """Every tenant's quota, by tenant."""
    return tuple(quota_of(row) for row in connection.execute(_EVERY))


def set_quota(connection: Connection, wanted: Quota, stamp: Stamp) -> None:
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


def delete_quota(connection: Connection, tenant: str, stamp: Stamp) -> None:
    """Limit a tenant no more; NotFound for one without a quota."""
    if not connection.execute(delete(quota).where(quota.c.tenant == tenant)).rowcount:
        raise NotFound(f"tenant {tenant} has no quota", next="vgpumgr quota list")
    write(connection, stamp, [{"event": "quota.deleted", "detail": tenant}])


@contextmanager
def within_quotas(connection: Connection, start: Reservation) -> Iterator[None]:
    """QuotaExceeded where what the block writes makes a tenant hold more than it may."""
    touched = {vm.spec.tenant for vm in (*start.vms, *start.changed_vms)}
    limited = [each for each in list_quotas(connection) if each.tenant in touched]
    if not limited:
        yield
        return
    tenants = [each.tenant for each in limited]
    connection.execute(_RAISE, [{"in_tenant": each} for each in tenants])
    before = held(connection, tenants)
    yield
    after = held(connection, tenants)
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
