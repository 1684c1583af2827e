"""What belongs to which tenants: for each kind of row the condition that a scope puts on it.

Every read within a scope takes its condition from here, so that all of them can be tried without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Select, and_, exists, or_, select
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.role_binding import Scope
from vgpumgr.store.schema import (
    allocation,
    audit,
    booking,
    desktop,
    logoff_move,
    operation,
    pool,
    pool_ask,
    pool_session,
    queue,
    quota,
    request,
    secret,
    task,
    ticket,
    vm,
    vm_backup,
    webhook,
)
from vgpumgr.store.schema.columns import ALL_ROWS

Condition = ColumnElement[bool]
Filter = Callable[[Scope], Condition]


def within(kind: str, scope: Scope) -> Condition:
    """The condition on rows of a kind; none for all tenants."""
    return ALL_ROWS if scope.is_all else FILTERS[kind](scope)


def of_tenants(column: ColumnElement[str], scope: Scope) -> Condition:
    """The column names one of the tenants."""
    return column.in_(sorted(scope.tenants or ()))


def _by(column: ColumnElement[str]) -> Filter:
    return lambda scope: of_tenants(column, scope)


def _by_vm(column: ColumnElement[Any]) -> Filter:
    return lambda scope: column.in_(select(vm.c.id).where(of_tenants(vm.c.tenant, scope)))


def _by_pool(column: ColumnElement[Any]) -> Filter:
    return lambda scope: column.in_(select(pool.c.id).where(of_tenants(pool.c.tenant, scope)))


def _operations(scope: Scope) -> Condition:
    """Its own, and those on VMs of several tenants that have a task for one of its own."""
    has_own = exists().where(task.c.operation == operation.c.id, FILTERS["tasks of VMs"](scope))
    shared = and_(operation.c.vm_tenant == "", has_own)
    return or_(of_tenants(operation.c.vm_tenant, scope), shared)


def _tasks(scope: Scope) -> Condition:
    """Of its VMs, and of what is no VM (a GPU that is partitioned for one)."""
    a_vm = task.c.vm_id.in_(select(vm.c.id))
    return or_(FILTERS["tasks of VMs"](scope), ~a_vm)


# Where a name stood for what, and from when to when: a name can be given again.
_STANDS = (
    select(vm.c.id).where(
        vm.c.name == audit.c.vm,
        vm.c.created_at <= audit.c.at,
        or_(vm.c.deleted_at.is_(None), vm.c.deleted_at >= audit.c.at),
    ),
    select(queue.c.id).where(
        queue.c.name == audit.c.vm,
        queue.c.since <= audit.c.at,
        or_(queue.c.closed_at.is_(None), queue.c.closed_at >= audit.c.at),
    ),
    select(desktop.c.id)
    .join(pool, pool.c.id == desktop.c.pool)
    .where(
        desktop.c.name == audit.c.vm,
        or_(desktop.c.closed_at.is_(None), desktop.c.closed_at >= audit.c.at),
    ),
)
_TENANTS = (vm.c.tenant, queue.c.tenant, pool.c.tenant)


def _audit(scope: Scope) -> Condition:
    """Records of operations that are its own, and those of a name that stood for something of its
    own then, and for nothing of others.
    """
    own_operation = audit.c.operation.in_(
        select(operation.c.id).where(of_tenants(operation.c.vm_tenant, scope))
    )
    both = zip(_STANDS, _TENANTS, strict=True)
    own, foreign = [], []
    for stands, tenant in both:
        mine = of_tenants(tenant, scope)
        own.append(_some(stands.where(mine)))
        foreign.append(_some(stands.where(~mine)))
    named = and_(audit.c.vm != "", or_(*own), ~or_(*foreign))
    return or_(own_operation, named)


def _some(query: Select[Any]) -> Condition:
    return query.correlate(audit).exists()


FILTERS: dict[str, Filter] = {
    "VMs": _by(vm.c.tenant),
    "backups": _by(vm_backup.c.tenant),
    "allocations": _by_vm(allocation.c.vm_id),
    "pools": _by(pool.c.tenant),
    "desktops": _by_pool(desktop.c.pool),
    "pool sessions": _by_pool(pool_session.c.pool),
    "pool asks": _by_pool(pool_ask.c.pool),
    "bookings": _by(booking.c.tenant),
    "logoff moves": _by_vm(logoff_move.c.vm_id),
    "queue": _by(queue.c.tenant),
    "quotas": _by(quota.c.tenant),
    "secrets": _by(secret.c.tenant),
    "requests": _by(request.c.tenant),
    "tickets": _by(ticket.c.tenant),
    "operations": _operations,
    "tasks": _tasks,
    "tasks of VMs": _by_vm(task.c.vm_id),
    "audit": _audit,
    "webhooks": _by(webhook.c.tenant),
}
