"""The ledger in SQL: the class with every subject, and its opening by path or URL."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from vgpumgr.store.admin.opening import BUSY_TIMEOUT_S, Migrated, claims_of, open_database
from vgpumgr.store.ledger.desktops import PoolLedger
from vgpumgr.store.ledger.fleet import FleetLedger
from vgpumgr.store.ledger.images import ImageLedger
from vgpumgr.store.ledger.operations import LeaseLedger
from vgpumgr.store.ledger.queue import QueueLedger
from vgpumgr.store.ledger.quotas import QuotaLedger
from vgpumgr.store.ledger.rollback_recovery import RecoveryLedger
from vgpumgr.store.ledger.tickets import TicketLedger
from vgpumgr.store.ledger.vm_ledger import VmLedger


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
    be made, is damaged, is not ours, or was created by a newer vgpumgr (by an older one,
    where it is not migrated).
    """
    database = open_database(url, create=create, busy_timeout_s=busy_timeout_s, migrated=migrated)
    return SqlLedger(database, claims_of(database, url), now, by)


class SqlLedger(
    FleetLedger,
    VmLedger,
    QueueLedger,
    QuotaLedger,
    PoolLedger,
    ImageLedger,
    TicketLedger,
    LeaseLedger,
    RecoveryLedger,
):
    """The ledger over one database; safe to share between threads."""

    def close(self) -> None:
        """Commit what waits, let go of claimed operations and of the database."""
        self._writer.close()
        self._claiming.close()
        self._database.close()
