"""What the ledger knows of VMs, and of what of which GPU they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from vgpumgr.model.history import Holding, RequestRecord
from vgpumgr.model.journal import Reservation
from vgpumgr.model.vm import Allocation, AllocationState, VmRecord


class Promises(Protocol):
    """What the ledger knows of VMs, and of what of which GPU they hold."""

    def vms(self, host: str | None = None, ids: Collection[str] = ()) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name; with ``host`` those that are there or move there, and
        those of these ``ids`` wherever they are.
        """

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""

    def vms_ever(self, ids: Collection[str]) -> tuple[VmRecord, ...]:
        """The VMs of these ids as they are or were last, deleted ones too."""

    def deleted_vms(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids are VMs that were deleted; an id of no VM is not among them."""

    def allocations(
        self, host: str | None = None, vm_ids: Collection[str] = (), *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """Allocations that hold units; with ``released`` the closed ones too. With ``host`` those
        there, and those of these VMs wherever they are.
        """

    def mark(self, allocations: Sequence[str], state: AllocationState) -> None:
        """Active allocations become orphaned, or orphaned ones active; units stay held.

        StaleGeneration, and nothing is written, when one of them is neither any more.
        """

    def reserve(self, reservation: Reservation) -> None:
        """Write a whole operation's start in one transaction, or raise and write nothing."""

    def refuse(self, refused: Sequence[RequestRecord]) -> None:
        """Keep refused requests for history."""

    def requests(
        self, *, since: float = 0.0, vm: str = "", limit: int | None = None
    ) -> tuple[RequestRecord, ...]:
        """Requests from ``since`` (Unix seconds) on, the newest first; those for one VM's name
        where ``vm`` is given.
        """

    def holdings(self) -> tuple[Holding, ...]:
        """What allocations hold or ever held of GPUs, the oldest first."""
