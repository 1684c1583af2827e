"""The ledger that the engine knows as ``vgpumgr.model.ports.Ledger``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from sqlalchemy import select

from vgpumgr.model.errors import LedgerError
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
from vgpumgr.store import gpus, hosts, journal, layouts, moves, observe, opening, reserve, vms
from vgpumgr.store.database import Database
from vgpumgr.store.locks import OperationLocks
from vgpumgr.store.migrate import Migration
from vgpumgr.store.opening import Migrated, file_path, open_database
from vgpumgr.store.schema import meta
from vgpumgr.store.writer import GroupWriter

BUSY_TIMEOUT_S = 15.0


def open_ledger(
    url: str | Path,
    *,
    create: bool = True,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    now: Callable[[], float] = time.time,
    migrated: Migrated = lambda _: None,
) -> SqlLedger:
    """Open the ledger at a file path or an SQLAlchemy URL, making it where ``create`` says so.

    Without a file and with ``create=False`` it is empty, refuses writes and makes nothing. With
    ``create`` a file of an older vgpumgr is backed up and migrated, of which ``migrated`` is told.
    ``now`` stamps what the ledger closes (Unix seconds). Raises LedgerError when the ledger cannot
    be made, is damaged, is not ours, or was made by a newer vgpumgr (by an older one, where it is
    not migrated).
    """
    database = open_database(url, create=create, busy_timeout_s=busy_timeout_s, migrated=migrated)
    path = file_path(url)
    locks = OperationLocks(path.with_name(f"{path.name}.locks")) if path else None
    return SqlLedger(database, locks, now)


def migrate_ledger(url: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Migration:
    """Bring an older ledger to today's schema; LedgerError when there is none.

    A file is copied beside itself first; a server's ledger is its operator's to back up.
    """
    return opening.migrate_ledger(url, busy_timeout_s=busy_timeout_s)


class SqlLedger:
    """The ledger over one database; safe to share between threads."""

    def __init__(
        self, database: Database, locks: OperationLocks | None, now: Callable[[], float]
    ) -> None:
        self._database = database
        self._locks = locks
        self._now = now
        self._writer: GroupWriter[Sequence[Transition]] = GroupWriter(self._commit)

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created; empty before that."""
        with self._database.read() as connection:
            return str(connection.execute(select(meta.c.fleet_id)).scalar_one())

    def epoch(self) -> int:
        """The store's epoch; raised at take-over and restore."""
        with self._database.read() as connection:
            return int(connection.execute(select(meta.c.epoch)).scalar_one())

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""
        with self._database.read() as connection:
            return hosts.list_hosts(connection)

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""
        with self._database.read() as connection:
            return hosts.get_host(connection, name)

    def add_host(self, record: HostRecord) -> None:
        """Enrol; Conflict when the name or address is taken."""
        with self._database.write() as connection:
            hosts.add_host(connection, record)

    def update_host(self, record: HostRecord) -> None:
        """Write what an operator sets; StaleGeneration when the row moved since it was read."""
        with self._database.write() as connection:
            hosts.update_host(connection, record)

    def remove_host(self, name: str) -> None:
        """Close the host's row; Conflict while a VM or an allocation is on it."""
        with self._database.write() as connection:
            hosts.remove_host(connection, name, self._now())

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep a probe made at ``at`` (Unix seconds); Conflict when a GPU's evidence disagrees."""
        fleet = self.fleet_id()
        with self._database.write() as connection:
            observe.observe(connection, facts, units, at, fleet)

    def observation_failed(self, host: str, error: str) -> None:
        """Remember why a probe failed; nothing else changes."""
        with self._database.write() as connection:
            hosts.observation_failed(connection, host, error)

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""
        with self._database.read() as connection:
            return gpus.list_gpus(connection, host)

    def vms(self) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name."""
        with self._database.read() as connection:
            return vms.list_vms(connection)

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""
        with self._database.read() as connection:
            return vms.get_vm(connection, name)

    def allocations(self, *, released: bool = False) -> tuple[Allocation, ...]:
        """Allocations that hold units; with ``released`` the closed ones too."""
        with self._database.read() as connection:
            return vms.list_allocations(connection, released=released)

    def layouts(self) -> tuple[LayoutRecord, ...]:
        """The layout last applied to each GPU of the enrolled hosts, by host and device."""
        with self._database.read() as connection:
            return layouts.list_layouts(connection)

    def reserve(self, reservation: Reservation) -> None:
        """Write an operation's start: all of it, or StaleGeneration or Conflict and nothing."""
        with self._database.write() as connection:
            reserve.reserve(connection, reservation)

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused requests for history."""
        with self._database.write() as connection:
            reserve.refuse(connection, refusals)

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable together; LedgerError when one of them is not legal."""
        if transitions:
            self._writer.submit(transitions)

    def _commit(self, batch: Sequence[Sequence[Transition]]) -> None:
        with self._database.write() as connection:
            moves.apply(connection, chain.from_iterable(batch), self._now())

    def operations(self, *, open_only: bool = False) -> tuple[OperationRecord, ...]:
        """Operations, newest first; ``open_only`` leaves those that run or wait."""
        with self._database.read() as connection:
            return journal.list_operations(connection, open_only=open_only)

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""
        with self._database.read() as connection:
            return journal.get_operation(connection, operation_id)

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation (by its whole id) with their steps."""
        with self._database.read() as connection:
            return journal.list_tasks(connection, operation_id)

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until close(); False while another live process is."""
        if self._locks is None:
            raise LedgerError(
                "operations cannot be claimed on a PostgreSQL ledger yet",
                why="the claim is a file lock beside the ledger",
                next="use a ledger file",
            )
        return self._locks.claim(self.operation(operation_id).id)

    def close(self) -> None:
        """Commit what waits, let go of claimed operations and of the database."""
        self._writer.close()
        if self._locks is not None:
            self._locks.close()
        self._database.close()
