"""Reads of the ledger for somebody: all that a front end shows, and nothing of other tenants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

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

V = TypeVar("V")


class ScopedReads(Protocol):
    """Reads within a scope; each is one transaction, filtered where the rows are.

    What belongs to another tenant is NotFound, in the words and with the suggestions of what does
    not exist. Hosts, GPUs and images are no tenant's: in a limited scope they are shown without
    what they would tell of others. Texts that were made over the whole fleet name no others.
    """

    @property
    def scope(self) -> Scope:
        """The tenants whose things are read."""

    def vms(self, host: str | None = None) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name; with ``host`` those there or on their way there."""

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""

    def allocations(
        self, host: str | None = None, *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """What these VMs hold, the oldest first; with ``released`` what they held, too."""

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""

    def pool_sessions(self, pool: str, limit: int, since: float = 0.0) -> tuple[PastSession, ...]:
        """The sessions on desktops of a pool (its id) that are open or ended after ``since`` (Unix
        seconds; 0: all), the last one first.
        """

    def pool_asks(self) -> tuple[DesktopRequestRecord, ...]:
        """The users that wait for a desktop, the longest first."""

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""

    def queue(self, names: Sequence[str] = ()) -> tuple[QueueEntry, ...]:
        """What waits or runs, the longest first; of ``names`` what is closed, too."""

    def quotas(self) -> tuple[Quota, ...]:
        """The tenants' quotas, by tenant."""

    def vm_backups(self) -> tuple[VmBackup, ...]:
        """The backups of the tenants' VMs, deleted VMs included, the oldest first."""

    def secrets(self) -> tuple[SecretRecord, ...]:
        """The tenants' secrets, by tenant and name."""

    def secret_references(self) -> tuple[SecretReference, ...]:
        """What uses the tenants' secrets."""

    def requests(
        self, *, since: float = 0.0, vm: str = "", limit: int | None = None
    ) -> tuple[RequestRecord, ...]:
        """Requests from ``since`` (Unix seconds) on, the newest first; those for one VM's name
        where ``vm`` is given.
        """

    def tickets(self, ids: Sequence[str] = ()) -> tuple[ConsoleTicket, ...]:
        """Console tickets that are not closed, the oldest first; of ``ids`` what is closed, too."""

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations on these tenants' VMs, newest first. One on VMs of others, too, is shown
        without its summary.
        """

    def operation(self, operation_id: str) -> OperationRecord:
        """One of them by id or unique prefix; NotFound otherwise."""

    def own_operation(self, operation_id: str) -> OperationRecord:
        """The same where no VM of others is in it; AccessRefused otherwise."""

    def operation_subjects(self, ids: Sequence[str]) -> Mapping[str, OperationSubjects]:
        """What operations (their whole ids) work on, without other tenants' VMs."""

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of one of them (its whole id) with their steps, without those of other
        tenants' VMs.
        """

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
        """The trail of these tenants' VMs, desktops, queue entries and operations, newest first;
        filters as of ``Ledger.audit``. From where an actor of no such tenant came is left out.
        """

    def audit_after(self, seq: int, limit: int) -> tuple[AuditRecord, ...]:
        """At most ``limit`` of these records after ``seq``, in order."""

    def webhooks(self) -> tuple[Webhook, ...]:
        """The tenants' webhooks, by name; those of all tenants in the scope of all alone."""

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""

    def images(self) -> tuple[ImageRecord, ...]:
        """Every image, by name and age."""

    def redacted(self, value: V, said: Collection[str] = ()) -> V:
        """A value (or error) that was computed over the whole fleet, without names of others,
        and without addresses of hosts; what the asker ``said`` stays.
        """
