"""What the ledger knows of itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from vgpumgr.model.audit import AuditRecord
from vgpumgr.model.freeze import Freeze, HostsTruth, Remembered


class Past(Protocol):
    """What the ledger knows of itself: its trail, its epoch, and whether it went back in time."""

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created."""

    def epoch(self) -> int:
        """The store's epoch; raised at take-over and restore."""

    def raise_epoch(self, at_least: int = 0) -> int:
        """The next epoch, or ``at_least`` where that is higher, spoken from now on as by
        :meth:`fresh_epoch`; returns the new one.
        """

    def audit(
        self,
        *,
        vm: str = "",
        host: str = "",
        operation: str = "",
        event: str = "",
        by: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> tuple[AuditRecord, ...]:
        """The trail, newest first; each filter that is set must match (``operation``,
        ``event`` and ``by`` by their beginning). ``since`` is Unix seconds.
        """

    def freeze(self, why: str) -> None:
        """Allocate nothing any more, until :meth:`thaw`; a frozen ledger keeps its first reason."""

    def frozen(self) -> Freeze | None:
        """Why nothing may be allocated; None where it may."""

    def remembered(
        self, *, vms: Collection[str], allocations: Collection[str], gpus: Collection[str]
    ) -> Remembered:
        """The epoch, and the generations of these ids where the ledger ever had them."""

    def take_in(self, truth: HostsTruth) -> None:
        """Write what hosts know and a frozen ledger does not.

        StaleGeneration, and nothing is written, where a unit, a device or a name is somebody
        else's; Conflict where the ledger is not frozen.
        """

    def thaw(self, epoch: int) -> None:
        """Allocate again, in an epoch above the store's and at least ``epoch``, spoken from now on
        as by :meth:`fresh_epoch`.
        """
