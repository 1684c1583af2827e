"""What the ledger knows of itself: trail, epoch, freeze."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from vgpumgr.model.audit import AuditRecord
from vgpumgr.model.freeze import Freeze, HostsTruth, Remembered
from vgpumgr.store import audit, freeze, memory
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried
from vgpumgr.store.schema import meta


class Past(Session):
    """The trail, the epoch, the freeze, and what hosts may tell a ledger that is behind."""

    def epoch(self) -> int:
        """The store's epoch; raised at take-over and restore."""
        with self._database.read() as connection:
            return int(connection.execute(select(meta.c.epoch)).scalar_one())

    def raise_epoch(self, at_least: int = 0) -> int:
        """The next epoch, or ``at_least`` where that is higher, which this process speaks from now
        on; returns the new one. ClaimLost where it lost what it had claimed.
        """
        raised = self._raise_epoch(at_least)
        self._claiming.fresh_epoch()
        return raised

    @retried
    def _raise_epoch(self, at_least: int) -> int:
        with self._database.write() as connection:
            return freeze.raise_epoch(connection, at_least, self._stamp())

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
        """The trail, newest first; ``operation``, ``event`` and ``by`` match by their beginning."""
        with self._database.read() as connection:
            return audit.list_audit(
                connection,
                vm=vm,
                host=host,
                operation=operation,
                event=event,
                by=by,
                since=since,
                limit=limit,
            )

    @retried
    def freeze(self, why: str) -> None:
        """Allocate nothing any more; a frozen ledger keeps its first reason."""
        with self._database.write() as connection:
            freeze.freeze(connection, why, self._stamp())

    def frozen(self) -> Freeze | None:
        """Why nothing may be allocated; None where it may."""
        with self._database.read() as connection:
            return freeze.frozen(connection)

    def remembered(
        self, *, vms: Collection[str], allocations: Collection[str], gpus: Collection[str]
    ) -> Remembered:
        """The epoch, and the generations of these ids where the ledger ever had them."""
        with self._database.read() as connection:
            return memory.remembered(connection, vms, allocations, gpus)

    @retried
    def take_in(self, truth: HostsTruth) -> None:
        """Write what hosts know and a frozen ledger does not; StaleGeneration writes nothing."""
        with self._database.write() as connection:
            memory.take_in(connection, truth, self._stamp())

    def thaw(self, epoch: int) -> None:
        """Allocate again, in an epoch above the store's and at least ``epoch``, which this process
        speaks from now on; ClaimLost where it lost what it had claimed.
        """
        self._thaw(epoch)
        self._claiming.fresh_epoch()

    @retried
    def _thaw(self, epoch: int) -> None:
        with self._database.write() as connection:
            freeze.thaw(connection, epoch, self._stamp())
