"""Pools in the ledger; each method is one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.pool import (
    Booking,
    DesktopRecord,
    PastSession,
    PoolAsk,
    PoolRecord,
)
from vgpumgr.store import desktops, hints, logoff_moves, pools
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried


class Pools(Session):
    """VDI pools, their desktops, who waits for one, and bookings."""

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""
        with self._database.read() as connection:
            return pools.list_pools(connection)

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""
        with self._database.read() as connection:
            return pools.get_pool(connection, name)

    @retried
    def put_pool(self, pool: PoolRecord) -> None:
        """Write a pool; StaleGeneration where it, or one of that name, is not as it was read."""
        with self._database.write() as connection:
            pools.put_pool(connection, pool, self._stamp())
            hints.tell(connection)

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""
        with self._database.read() as connection:
            return desktops.list_desktops(connection, names)

    @retried
    def take_desktops(
        self, moves: Sequence[DesktopRecord], pool: PoolRecord | None = None
    ) -> tuple[DesktopRecord, ...]:
        """Write desktops that are as they were read, and leave the others; what was written.

        With ``pool`` nobody gave desktops of it to users meanwhile, nor changed it: otherwise
        StaleGeneration, and nothing is written.
        """
        with self._database.write() as connection:
            if pool is not None:
                pools.raise_pool(connection, pool)
            taken = desktops.take(connection, moves, self._stamp())
            hints.tell(connection)
            return taken

    def pool_sessions(self, pool: str, limit: int) -> tuple[PastSession, ...]:
        """Who was on which desktop of a pool (its id), the last one first."""
        with self._database.read() as connection:
            return desktops.list_sessions(connection, pool, limit)

    def pool_asks(self) -> tuple[PoolAsk, ...]:
        """Who waits for a desktop, the longest first."""
        with self._database.read() as connection:
            return pools.list_asks(connection)

    @retried
    def ask_desktop(self, ask: PoolAsk) -> None:
        """Let a user wait; who waits already keeps the place."""
        with self._database.write() as connection:
            pools.enter_ask(connection, ask, self._stamp())
            hints.tell(connection)

    @retried
    def end_ask(self, pool: str, user: str) -> bool:
        """Let a user wait no more for a desktop of a pool (its id); did it wait?"""
        with self._database.write() as connection:
            return pools.end_ask(connection, pool, user, self._stamp())

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""
        with self._database.read() as connection:
            return pools.list_bookings(connection)

    @retried
    def book(self, booking: Booking, tenant: str) -> None:
        """Enter a booking."""
        with self._database.write() as connection:
            pools.book(connection, booking, tenant, self._stamp())

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""
        with self._database.read() as connection:
            return logoff_moves.list_moves(connection)

    @retried
    def await_logoff(self, moves: Sequence[LogoffMove]) -> None:
        """Let moves wait; each takes the place of one of the same VM."""
        with self._database.write() as connection:
            logoff_moves.put(connection, moves, self._stamp())
            hints.tell(connection)

    @retried
    def end_logoff_move(self, id_: str, outcome: str) -> bool:
        """Let a move (by its id) wait no more; False where it did not any longer."""
        with self._database.write() as connection:
            return logoff_moves.end(connection, id_, outcome, self._stamp())

    @retried
    def cancel_booking(self, booking: str) -> None:
        """Cancel a booking by its id; NotFound where there is none."""
        with self._database.write() as connection:
            pools.unbook(connection, booking, self._stamp())
