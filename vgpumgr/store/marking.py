"""The part of the ledger that keeps marks: orphaned allocations, quarantined GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from vgpumgr.model.vm import AllocationState
from vgpumgr.store import marks
from vgpumgr.store.audit import Stamp
from vgpumgr.store.database import Database
from vgpumgr.store.retry import retried


class Marking(ABC):
    """Methods of the ledger; each is one transaction."""

    _database: Database

    @abstractmethod
    def _stamp(self) -> Stamp:
        """Who writes, and when."""

    @retried
    def mark(self, allocations: Sequence[str], state: AllocationState) -> None:
        """Active allocations become orphaned, or orphaned ones active; units stay held."""
        with self._database.write() as connection:
            marks.mark(connection, allocations, state, self._stamp())

    @retried
    def quarantine(self, gpu: str, why: str) -> None:
        """Place nothing on a GPU any more; what is on it stays."""
        with self._database.write() as connection:
            marks.quarantine(connection, gpu, why, self._stamp())

    @retried
    def lift(self, gpu: str) -> None:
        """Use a quarantined GPU again; Conflict for one that is not quarantined."""
        with self._database.write() as connection:
            marks.lift(connection, gpu, self._stamp())

    def deleted_vms(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids are VMs that were deleted."""
        with self._database.read() as connection:
            return marks.deleted(connection, ids)
