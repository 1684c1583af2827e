"""Reads within a scope: the rows of some tenants, chosen where the rows are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Connection, Select, select

from vgpumgr.access.redaction import Redaction, names_in
from vgpumgr.access.tenant_view import gpu_for_tenant, host_for_tenant, image_for_tenant
from vgpumgr.model.errors import AccessRefused, NotFound, VgpumgrError
from vgpumgr.store.ledger import audit_trail, operations
from vgpumgr.store.ledger.tenant_filters import Condition, within
from vgpumgr.store.ledger_modules import (
    allocations_sql,
    gpus_sql,
    history_sql,
    hosts_sql,
    images_sql,
    logoff_moves_sql,
    pools_sql,
    queue_sql,
    quotas_sql,
    secrets_sql,
    tickets_sql,
    vm_backups_sql,
    vms_sql,
    webhooks_sql,
)
from vgpumgr.store.schema import booking, desktop, operation, pool, pool_ask, pool_session, request
from vgpumgr.store.schema import queue as queue_table
from vgpumgr.store.schema import vm as vm_table

if TYPE_CHECKING:
    from vgpumgr.model.allocation import Allocation
    from vgpumgr.model.console_ticket import ConsoleTicket
    from vgpumgr.model.defrag import LogoffMove
    from vgpumgr.model.desktop import (
        Booking,
        DesktopRecord,
        DesktopRequestRecord,
        PastSession,
        PoolRecord,
    )
    from vgpumgr.model.gpu import GpuRecord
    from vgpumgr.model.history import AuditRecord, RequestRecord
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.image import ImageRecord
    from vgpumgr.model.operation import OperationRecord, OperationSubjects, TaskRecord
    from vgpumgr.model.queue import QueueEntry
    from vgpumgr.model.quota import Quota
    from vgpumgr.model.role_binding import Scope
    from vgpumgr.model.secret import SecretRecord, SecretReference
    from vgpumgr.model.vm import VmRecord
    from vgpumgr.model.vm_backup import VmBackup
    from vgpumgr.model.webhook import Webhook
    from vgpumgr.store.database.connections import Database

V = TypeVar("V")
R = TypeVar("R", "OperationRecord", "TaskRecord", "AuditRecord", "QueueEntry", "DesktopRecord")

_AT_ONCE = 500


class SqlScopedReads:
    """The reads of one scope over a ledger's database; threads may share it."""

    def __init__(self, database: Database, scope: Scope) -> None:
        self._database = database
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """The tenants whose things are read."""
        return self._scope

    def _within(self, kind: str) -> Condition:
        return within(kind, self._scope)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._database.read() as connection:
            yield connection

    # VMs and what they hold

    def vms(self, host: str | None = None) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name; with ``host`` those there or on their way there."""
        with self._read() as connection:
            return vms_sql.list_vms(connection, host, within=self._within("VMs"))

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound says where it waits, or suggests near names."""
        with self._read() as connection:
            return vms_sql.get_vm(
                connection, name, within=self._within("VMs"), waits=self._within("queue")
            )

    def allocations(
        self, host: str | None = None, *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """What these VMs hold, the oldest first; with ``released`` what they held, too."""
        with self._read() as connection:
            return allocations_sql.list_allocations(
                connection, host, released=released, within=self._within("allocations")
            )

    def requests(
        self, *, since: float = 0.0, vm: str = "", limit: int | None = None
    ) -> tuple[RequestRecord, ...]:
        """Requests from ``since`` (Unix seconds) on, the newest first."""
        with self._read() as connection:
            found = history_sql.list_requests(
                connection, since=since, vm=vm, limit=limit, within=self._within("requests")
            )
            told = [each.explanation for each in found]
            clean = self._redaction(connection, told)
            return tuple(replace(each, explanation=clean.value(each.explanation)) for each in found)

    def queue(self, names: Sequence[str] = ()) -> tuple[QueueEntry, ...]:
        """What waits or runs, the longest first; of ``names`` what is closed, too."""
        with self._read() as connection:
            found = queue_sql.list_queue(connection, names, within=self._within("queue"))
            return self._without(connection, found, "why")

    def quotas(self) -> tuple[Quota, ...]:
        """The tenants' quotas, by tenant."""
        with self._read() as connection:
            return quotas_sql.list_quotas(connection, within=self._within("quotas"))

    def vm_backups(self) -> tuple[VmBackup, ...]:
        """The backups of the tenants' VMs, the oldest first."""
        with self._read() as connection:
            return vm_backups_sql.list_backups(connection, within=self._within("backups"))

    def secrets(self) -> tuple[SecretRecord, ...]:
        """The tenants' secrets, by tenant and name."""
        with self._read() as connection:
            return secrets_sql.list_secrets(connection, within=self._within("secrets"))

    def secret_references(self) -> tuple[SecretReference, ...]:
        """What uses the tenants' secrets."""
        with self._read() as connection:
            found = secrets_sql.list_references(connection)
        return tuple(each for each in found if each.tenant in self._scope)

    def tickets(self, ids: Sequence[str] = ()) -> tuple[ConsoleTicket, ...]:
        """Console tickets that are not closed, the oldest first; of ``ids`` closed ones, too."""
        with self._read() as connection:
            return tickets_sql.list_tickets(connection, ids, within=self._within("tickets"))

    # Pools

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""
        with self._read() as connection:
            return pools_sql.list_pools(connection, within=self._within("pools"))

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""
        with self._read() as connection:
            return pools_sql.get_pool(connection, name, within=self._within("pools"))

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""
        with self._read() as connection:
            found = pools_sql.list_desktops(connection, names, within=self._within("desktops"))
            return self._without(connection, found, "why")

    def pool_sessions(self, pool: str, limit: int, since: float = 0.0) -> tuple[PastSession, ...]:
        """The sessions on desktops of a pool (its id) that are open or ended after ``since``, the
        last one first.
        """
        with self._read() as connection:
            return pools_sql.list_sessions(
                connection, pool, limit, since, within=self._within("pool sessions")
            )

    def pool_asks(self) -> tuple[DesktopRequestRecord, ...]:
        """The users that wait for a desktop, the longest first."""
        with self._read() as connection:
            return pools_sql.list_asks(connection, within=self._within("pool asks"))

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""
        with self._read() as connection:
            return pools_sql.list_bookings(connection, within=self._within("bookings"))

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""
        with self._read() as connection:
            return logoff_moves_sql.list_logoff_moves(
                connection, within=self._within("logoff moves")
            )

    # Operations and the trail

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations on these tenants' VMs, newest first."""
        with self._read() as connection:
            found = operations.list_operations(
                connection, open_only=open_only, since=since, within=self._within("operations")
            )
            return self._of_these_tenants(connection, found)

    def operation(self, operation_id: str) -> OperationRecord:
        """One of them by id or unique prefix; NotFound otherwise."""
        with self._read() as connection:
            return self._operation(connection, operation_id)

    def own_operation(self, operation_id: str) -> OperationRecord:
        """The same where no VM of others is in it; AccessRefused otherwise."""
        with self._read() as connection:
            found = self._operation(connection, operation_id)
            if not self._scope.is_all and operations.without_tenant(connection, [found.id]):
                raise AccessRefused(
                    f"operation {found.id} is on VMs of other tenants, too",
                    next="ask an operator of the fleet",
                )
            return found

    def _operation(self, connection: Connection, operation_id: str) -> OperationRecord:
        found = operations.get_operation(
            connection, operation_id, within=self._within("operations")
        )
        return self._of_these_tenants(connection, (found,))[0]

    def _of_these_tenants(
        self, connection: Connection, found: tuple[OperationRecord, ...]
    ) -> tuple[OperationRecord, ...]:
        """Without what those on VMs of others, too, say of all of them together."""
        if self._scope.is_all:
            return found
        shared = operations.without_tenant(connection, [each.id for each in found])
        own = (replace(each, summary="") if each.id in shared else each for each in found)
        return self._without(connection, tuple(own), "summary")

    def operation_subjects(self, ids: Sequence[str]) -> Mapping[str, OperationSubjects]:
        """What operations (their whole ids) work on, without other tenants' VMs."""
        with self._read() as connection:
            return operations.list_subjects(connection, ids, within=self._within("tasks of VMs"))

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of one of them with their steps, without those of other tenants' VMs."""
        with self._read() as connection:
            try:
                self._operation(connection, operation_id)
            except NotFound:
                return ()
            found = operations.list_tasks(connection, operation_id, within=self._within("tasks"))
            clean = self._redaction(connection, [_texts(each) for each in found])
            return tuple(_cleaned(each, clean) for each in found)

    def audit(
        self,
        *,
        vm: str = "",
        host: str = "",
        operation: str = "",
        event: str = "",
        by: str = "",
        user: str = "",
        tenant: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> tuple[AuditRecord, ...]:
        """The trail of these tenants' things, newest first."""
        with self._read() as connection:
            found = audit_trail.list_audit(
                connection,
                vm=vm,
                host=host,
                operation=operation,
                event=event,
                by=by,
                user=user,
                tenant=tenant,
                since=since,
                limit=limit,
                within=self._within("audit"),
            )
            return self._told(connection, found)

    def audit_after(self, seq: int, limit: int) -> tuple[AuditRecord, ...]:
        """At most ``limit`` of these records after ``seq``, in order."""
        with self._read() as connection:
            found = audit_trail.audit_after(connection, seq, limit, within=self._within("audit"))
            return self._told(connection, found)

    def _told(
        self, connection: Connection, found: tuple[AuditRecord, ...]
    ) -> tuple[AuditRecord, ...]:
        """Records without names of others, and without where operators' requests came from."""
        own = (
            each
            if each.tenant in self._scope
            else replace(each, tenant="", address="", credential="")
            for each in found
        )
        return self._without(connection, tuple(own), "detail")

    def webhooks(self) -> tuple[Webhook, ...]:
        """The tenants' webhooks, by name."""
        with self._read() as connection:
            return webhooks_sql.list_webhooks(connection, within=self._within("webhooks"))

    # What no tenant owns

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""
        with self._read() as connection:
            found = hosts_sql.list_hosts(connection)
            return self._hosts(connection, found)

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""
        with self._read() as connection:
            return self._hosts(connection, (hosts_sql.get_host(connection, name),))[0]

    def _hosts(
        self, connection: Connection, records: tuple[HostRecord, ...]
    ) -> tuple[HostRecord, ...]:
        if self._scope.is_all:
            return records
        own = vms_sql.list_vms(connection, within=self._within("VMs"))
        ids = frozenset(each.id for each in own)
        return tuple(host_for_tenant(each, ids) for each in records)

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""
        with self._read() as connection:
            found = gpus_sql.list_gpus(connection, host)
            return found if self._scope.is_all else tuple(map(gpu_for_tenant, found))

    def images(self) -> tuple[ImageRecord, ...]:
        """Every image, by name and age."""
        with self._read() as connection:
            found = images_sql.list_images(connection)
            return found if self._scope.is_all else tuple(map(image_for_tenant, found))

    # Texts

    def redacted(self, value: V, said: Collection[str] = ()) -> V:
        """A value (or error) that was computed over the whole fleet, without names of others,
        and without addresses of hosts; what the asker ``said`` stays.
        """
        with self._read() as connection:
            clean = self._redaction(connection, value).knowing(said)
            return clean.error(value) if isinstance(value, VgpumgrError) else clean.value(value)

    def _without(self, connection: Connection, found: tuple[R, ...], text: str) -> tuple[R, ...]:
        """The records, with one of their texts redacted."""
        if self._scope.is_all:
            return found
        clean = self._redaction(connection, [getattr(each, text) for each in found])
        texts = (clean.text(getattr(each, text)) for each in found)
        return tuple(_with(each, text, new) for each, new in zip(found, texts, strict=True))

    def _redaction(self, connection: Connection, value: object) -> Redaction:
        """What takes other tenants' names out of a value's texts."""
        if self._scope.is_all:
            return Redaction()
        names = names_in(value)
        if not names:
            return Redaction()
        addresses = hosts_sql.list_addresses(connection)
        return Redaction.of(self._scope, _known(connection, names), addresses)


_NAMED = (
    (select(vm_table.c.name, vm_table.c.tenant), vm_table.c.name),
    (select(request.c.vm, request.c.tenant), request.c.vm),
    (select(queue_table.c.name, queue_table.c.tenant), queue_table.c.name),
    (select(pool.c.name, pool.c.tenant), pool.c.name),
    (select(booking.c.id, booking.c.tenant), booking.c.id),
    (select(desktop.c.name, pool.c.tenant).join(pool, pool.c.id == desktop.c.pool), desktop.c.name),
    (
        select(operation.c.started_by, operation.c.vm_tenant).where(operation.c.ended_at.is_(None)),
        operation.c.started_by,
    ),
    *(
        (select(table.c.user_name, pool.c.tenant).join(pool, pool.c.id == table.c.pool), it)
        for table, it in (
            (pool_session, pool_session.c.user_name),
            (pool_ask, pool_ask.c.user_name),
        )
    ),
)


def _known(connection: Connection, names: Collection[str]) -> Iterable[tuple[str, str]]:
    """Which of these are, or were, names of something of a tenant's; with the tenant."""
    wanted = sorted(names)
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        for query, it in _NAMED:
            named: Select[Any] = query.where(it.in_(some)).distinct()
            yield from ((row[0], row[1]) for row in connection.execute(named))


def _with(record: R, name: str, text: str) -> R:
    changed: R = replace(cast("Any", record), **{name: text})
    return changed


def _texts(task: TaskRecord) -> list[str]:
    return [task.error, *(each.detail for each in task.steps)]


def _cleaned(task: TaskRecord, clean: Redaction) -> TaskRecord:
    steps = tuple(replace(each, detail=clean.text(each.detail)) for each in task.steps)
    return replace(task, error=clean.text(task.error), steps=steps)
