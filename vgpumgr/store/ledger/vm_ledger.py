"""Methods of the ledger for VMs, allocations and requests; each is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.model.history import Holding, RequestRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import Allocation, AllocationState, VmRecord
from vgpumgr.store.database.commits import retried
from vgpumgr.store.ledger import gpus, history, reservations, vms
from vgpumgr.store.ledger.base import LedgerBase


class VmLedger(LedgerBase):
    """VMs and allocations: reserved with their operation, marked by what a look finds."""

    def vms(self, host: str | None = None, ids: Collection[str] = ()) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name: all, or those of one host and of these ids."""
        with self._database.read() as connection:
            return vms.list_vms(connection, host, ids)

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""
        with self._database.read() as connection:
            return vms.get_vm(connection, name)

    def vms_ever(self, ids: Collection[str]) -> tuple[VmRecord, ...]:
        """The VMs of these ids as they are or were last, deleted ones too."""
        with self._database.read() as connection:
            return vms.vms_ever(connection, ids)

    def deleted_vms(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids are VMs that were deleted."""
        with self._database.read() as connection:
            return gpus.deleted_vm_ids(connection, ids)

    def allocations(
        self, host: str | None = None, vm_ids: Collection[str] = (), *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """Allocations that hold units, all or those of one host and of these VMs; with
        ``released`` the closed ones too.
        """
        with self._database.read() as connection:
            return vms.list_allocations(connection, host, vm_ids, released=released)

    @retried
    def mark(self, allocations: Sequence[str], state: AllocationState) -> None:
        """Active allocations become orphaned, or orphaned ones active; units stay held."""
        with self._database.write() as connection:
            gpus.mark_allocations(connection, allocations, state, self._stamp())

    @retried
    def reserve(self, reservation: Reservation) -> None:
        """Write an operation's start, and be its worker: all of it, or StaleGeneration or
        Conflict and nothing.
        """
        with self._claiming.begun(reservation.operation.id) as connection:
            reservations.reserve(connection, reservation, self._stamp())

    @retried
    def refuse(self, refused: Sequence[RequestRecord]) -> None:
        """Keep refused requests for history."""
        with self._database.write() as connection:
            reservations.refuse(connection, refused)

    def requests(
        self, *, since: float = 0.0, vm: str = "", limit: int | None = None
    ) -> tuple[RequestRecord, ...]:
        """Requests from ``since`` (Unix seconds) on, the newest first; those for one VM's name
        where ``vm`` is given.
        """
        with self._database.read() as connection:
            return history.list_requests(connection, since=since, vm=vm, limit=limit)

    def holdings(self) -> tuple[Holding, ...]:
        """What allocations hold or ever held of GPUs, the oldest first."""
        with self._database.read() as connection:
            return history.list_holdings(connection)
