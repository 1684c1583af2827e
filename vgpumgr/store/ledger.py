"""The ledger that the engine knows as ``vgpumgr.model.ports.Ledger``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path

from sqlalchemy import select

from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.journal import (
    OperationRecord,
    Refusal,
    Reservation,
    TaskRecord,
    Transition,
)
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.vm import Allocation, VmRecord
from vgpumgr.store import (
    gpus,
    hosts,
    journal,
    layouts,
    moves,
    observe,
    opening,
    reserve,
    turns,
    vms,
)
from vgpumgr.store.audit import Stamp
from vgpumgr.store.claiming import Claiming
from vgpumgr.store.claims import Claims
from vgpumgr.store.database import Database
from vgpumgr.store.locks import FileLocks
from vgpumgr.store.marking import Marking
from vgpumgr.store.migrate import Migration
from vgpumgr.store.opening import Migrated, file_path, open_database
from vgpumgr.store.past import Past
from vgpumgr.store.retry import retried
from vgpumgr.store.schema import meta
from vgpumgr.store.server_locks import ServerLocks
from vgpumgr.store.writer import GroupWriter

BUSY_TIMEOUT_S = 15.0


def open_ledger(
    url: str | Path,
    *,
    create: bool = True,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    now: Callable[[], float] = time.time,
    migrated: Migrated = lambda _: None,
    by: str = "",
) -> SqlLedger:
    """Open the ledger at a file path or an SQLAlchemy URL, making it where ``create`` says so.

    Without a file and with ``create=False`` it is empty, refuses writes and makes nothing. With
    ``create`` a file of an older vgpumgr is backed up and migrated, of which ``migrated`` is told.
    ``now`` stamps what the ledger closes (Unix seconds), ``by`` is who does it
    (``user@controller``), for the trail. Raises LedgerError when the ledger cannot
    be made, is damaged, is not ours, or was made by a newer vgpumgr (by an older one, where it is
    not migrated).
    """
    database = open_database(url, create=create, busy_timeout_s=busy_timeout_s, migrated=migrated)
    return SqlLedger(database, claims_of(database, file_path(url)), now, by)


def claims_of(database: Database, path: Path | None) -> Claims:
    """How claims are held on a ledger: files beside its file, or sessions of its server."""
    if path is not None:
        return FileLocks(path.with_name(f"{path.name}.locks"))
    with database.read() as connection:
        fleet = connection.execute(select(meta.c.fleet_id)).scalar_one()
    return ServerLocks(database.engine, fleet, database.where)


def migrate_ledger(url: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Migration:
    """Bring an older ledger to today's schema; LedgerError when there is none.

    A file is copied beside itself first; a server's ledger is its operator's to back up.
    """
    return opening.migrate_ledger(url, busy_timeout_s=busy_timeout_s)


class SqlLedger(Past, Marking):
    """The ledger over one database; safe to share between threads."""

    def __init__(
        self,
        database: Database,
        claims: Claims,
        now: Callable[[], float],
        by: str = "",
    ) -> None:
        self._database = database
        self._claiming = Claiming(database, claims, self._stamp)
        self._now = now
        self._by = by
        self._fleet = ""
        self._writer: GroupWriter[Sequence[Transition]] = GroupWriter(self._commit)

    def _stamp(self) -> Stamp:
        """Who writes, and when."""
        return Stamp(self._by, self._now())

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created; empty before that."""
        if not self._fleet:
            with self._database.read() as connection:
                self._fleet = str(connection.execute(select(meta.c.fleet_id)).scalar_one())
        return self._fleet

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
            hosts.update_host(connection, record, self._stamp())

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
            observe.observe(connection, facts, units, at, fleet, self._stamp())

    @retried
    def observation_failed(self, host: str, error: str) -> None:
        """Remember why a probe failed; nothing else changes."""
        with self._database.write() as connection:
            hosts.observation_failed(connection, host, error)

    @retried
    def take_host(self, now: float, until: float) -> str | None:
        """The host whose look is due longest, its next look due at ``until`` (Unix seconds)."""
        with self._database.read() as connection:
            if not turns.any_due(connection, now):
                return None
        with self._database.write() as connection:
            return turns.take_host(connection, now, until)

    @retried
    def host_due(self, host: str, at: float) -> None:
        """The next look at a host is due at ``at``; NotFound when it is not enrolled."""
        with self._database.write() as connection:
            turns.host_due(connection, host, at)

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""
        with self._database.read() as connection:
            return gpus.list_gpus(connection, host)

    def vms(self, host: str | None = None, ids: Collection[str] = ()) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name: all, or those of one host and of these ids."""
        with self._database.read() as connection:
            return vms.list_vms(connection, host, ids)

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""
        with self._database.read() as connection:
            return vms.get_vm(connection, name)

    def allocations(
        self, host: str | None = None, vm_ids: Collection[str] = (), *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """Allocations that hold units, all or those of one host and of these VMs; with
        ``released`` the closed ones too.
        """
        with self._database.read() as connection:
            return vms.list_allocations(connection, host, vm_ids, released=released)

    def layouts(self, host: str | None = None) -> tuple[LayoutRecord, ...]:
        """The layout last applied to each GPU of the enrolled hosts, by host and device."""
        with self._database.read() as connection:
            return layouts.list_layouts(connection, host)

    @retried
    def reserve(self, reservation: Reservation) -> None:
        """Write an operation's start, and be its worker: all of it, or StaleGeneration or
        Conflict and nothing.
        """
        with self._claiming.begun(reservation.operation.id) as connection:
            reserve.reserve(connection, reservation, self._stamp())

    @retried
    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused requests for history."""
        with self._database.write() as connection:
            reserve.refuse(connection, refusals)

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable together; LedgerError when one of them is not legal."""
        if transitions:
            self._writer.submit(transitions)

    @retried
    def _commit(self, batch: Sequence[Sequence[Transition]]) -> None:
        transitions = list(chain.from_iterable(batch))
        with self._claiming.moved(transitions) as connection:
            moves.apply(connection, transitions, self._stamp())

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations, newest first; ``open_only`` leaves those that run or wait, ``since`` these
        and those that ended after that time.
        """
        with self._database.read() as connection:
            return journal.list_operations(connection, open_only=open_only, since=since)

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""
        with self._database.read() as connection:
            return journal.get_operation(connection, operation_id)

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation (by its whole id) with their steps."""
        with self._database.read() as connection:
            return journal.list_tasks(connection, operation_id)

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Taking one over from a process that may still run raises the epoch.
        """
        return self._claiming.operation(self.operation(operation_id).id)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claiming.is_worked_on(self.operation(operation_id).id)

    def claim(self, name: str) -> bool:
        """Hold a name (``serve``, ``host:NAME``); False while another live process does."""
        return self._claiming.name(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claiming.release(name)

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in."""
        return self._claiming.spoken_epoch()

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        return self._claiming.fresh_epoch()

    def close(self) -> None:
        """Commit what waits, let go of claimed operations and of the database."""
        self._writer.close()
        self._claiming.close()
        self._database.close()
