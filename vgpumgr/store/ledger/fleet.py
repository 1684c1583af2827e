"""Methods of the ledger for hosts, GPUs, layouts and refusals; each is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.refusal import Refusal
from vgpumgr.store.database import notify
from vgpumgr.store.database.commits import retried
from vgpumgr.store.database.notify import WorkListener
from vgpumgr.store.ledger import gpus, hosts, layouts, observations, refusals
from vgpumgr.store.ledger.base import LedgerBase


class FleetLedger(LedgerBase):
    """Hosts, their GPUs and layouts; a look, an operator or a mark changes them."""

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""
        with self._database.read() as connection:
            return hosts.list_hosts(connection)

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""
        with self._database.read() as connection:
            return hosts.get_host(connection, name)

    @retried
    def add_host(self, record: HostRecord) -> None:
        """Enrol; Conflict when the name or address is taken."""
        with self._database.write() as connection:
            hosts.add_host(connection, record, self._stamp())

    @retried
    def update_host(self, record: HostRecord) -> None:
        """Write what an operator sets; StaleGeneration when the row moved since it was read."""
        with self._database.write() as connection:
            stamp = self._stamp()
            before = hosts.get_host(connection, record.name)
            hosts.update_host(connection, record, stamp)
            if before.cordoned and not record.cordoned:
                refusals.forgive(connection, stamp, host=record.name)
            notify.notify(connection)

    @retried
    def remove_host(self, name: str) -> None:
        """Close the host's row; Conflict while a VM or an allocation is on it."""
        with self._database.write() as connection:
            hosts.remove_host(connection, name, self._stamp())

    @retried
    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep a probe made at ``at`` (Unix seconds); Conflict when a GPU's evidence disagrees."""
        fleet = self.fleet_id()
        with self._database.write() as connection:
            observations.observe(connection, facts, units, at, fleet, self._stamp())

    @retried
    def observation_failed(self, host: str, error: str) -> None:
        """Remember why a probe failed; nothing else changes."""
        with self._database.write() as connection:
            hosts.observation_failed(connection, host, error)

    @retried
    def take_host(self, now: float, until: float) -> str | None:
        """The host whose look is due longest, its next look due at ``until`` (Unix seconds)."""
        with self._database.read() as connection:
            if not hosts.any_due(connection, now):
                return None
        with self._database.write() as connection:
            return hosts.take_host(connection, now, until)

    @retried
    def host_due(self, host: str, at: float) -> None:
        """The next look at a host is due at ``at``; NotFound when it is not enrolled."""
        with self._database.write() as connection:
            hosts.host_due(connection, host, at)

    def hear(self, heard: Callable[[], None]) -> WorkListener:
        """Call ``heard``, in another thread, when another process may have made work: an operation
        ended, a VM waits, a host was changed by its operator. A hint that may fail to come.
        """
        return WorkListener(self._database, heard)

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""
        with self._database.read() as connection:
            return gpus.list_gpus(connection, host)

    def layouts(self, host: str | None = None) -> tuple[LayoutRecord, ...]:
        """The layout last applied to each GPU of the enrolled hosts, by host and device."""
        with self._database.read() as connection:
            return layouts.list_layouts(connection, host)

    @retried
    def quarantine(self, gpu: str, why: str) -> None:
        """Place nothing on a GPU any more; what is on it stays."""
        with self._database.write() as connection:
            gpus.quarantine(connection, gpu, why, self._stamp())

    @retried
    def lift(self, gpu: str) -> None:
        """Use a GPU again that is quarantined, or in back-off; Conflict where it is neither."""
        with self._database.write() as connection:
            stamp = self._stamp()
            forgiven = refusals.forgive(connection, stamp, gpu=gpu)
            if not forgiven or gpus.is_quarantined(connection, gpu):
                gpus.lift_quarantine(connection, gpu, stamp)

    def refusals(self, operation: str | None = None) -> tuple[Refusal, ...]:
        """What GPUs and hosts refused and no success has closed, the oldest first; all of an
        operation (its whole id) where it is named.
        """
        with self._database.read() as connection:
            return refusals.list_refusals(connection, self._now(), operation)
