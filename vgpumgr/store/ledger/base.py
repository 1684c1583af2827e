"""The common base of the ledger's subjects: the database, the leases, the author of changes."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from vgpumgr.store.database.connections import Database
from vgpumgr.store.database.process_locks import ProcessLocks
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.ledger.leases import Leases
from vgpumgr.store.schema import meta


class LedgerBase:
    """One process at one database; safe to share between threads.

    ``now`` gives Unix seconds, ``by`` is who writes (``user@controller``), for the trail.
    """

    def __init__(
        self, database: Database, claims: ProcessLocks, now: Callable[[], float], by: str = ""
    ) -> None:
        self._database = database
        self._claiming = Leases(database, claims, self._stamp)
        self._now = now
        self._by = by
        self._fleet = ""

    def _stamp(self) -> Stamp:
        """Who writes, and when."""
        return Stamp(self._by, self._now())

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created; empty before that."""
        if not self._fleet:
            with self._database.read() as connection:
                self._fleet = str(connection.execute(select(meta.c.fleet_id)).scalar_one())
        return self._fleet
