"""What every part of the ledger works with: the database, what is claimed, who writes."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from vgpumgr.store.audit import Stamp
from vgpumgr.store.claiming import Claiming
from vgpumgr.store.claims import Claims
from vgpumgr.store.database import Database
from vgpumgr.store.schema import meta


class Session:
    """One process at one database; safe to share between threads.

    ``now`` gives Unix seconds, ``by`` is who writes (``user@controller``), for the trail.
    """

    def __init__(
        self, database: Database, claims: Claims, now: Callable[[], float], by: str = ""
    ) -> None:
        self._database = database
        self._claiming = Claiming(database, claims, self._stamp)
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
