"""What the ledger knows of VDI pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.pool import (
    Booking,
    DesktopRecord,
    PastSession,
    PoolAsk,
    PoolRecord,
)


class Pools(Protocol):
    """Pools, their desktops, who waits for one, bookings, and moves that wait for a logoff.
    ``reserve`` moves desktops, too.
    """

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""

    def put_pool(self, pool: PoolRecord) -> None:
        """Write a pool; StaleGeneration where it, or one of that name, is not as it was read."""

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""

    def take_desktops(
        self, moves: Sequence[DesktopRecord], pool: PoolRecord | None = None
    ) -> tuple[DesktopRecord, ...]:
        """Write desktops that are as they were read, and leave the others; what was written.

        With ``pool`` nobody gave desktops of it to users meanwhile, nor changed it: otherwise
        StaleGeneration, and nothing is written.
        """

    def pool_sessions(self, pool: str, limit: int) -> tuple[PastSession, ...]:
        """Who was on which desktop of a pool (its id), the last one first."""

    def pool_asks(self) -> tuple[PoolAsk, ...]:
        """Who waits for a desktop, the longest first."""

    def ask_desktop(self, ask: PoolAsk) -> None:
        """Let a user wait; who waits already keeps the place."""

    def end_ask(self, pool: str, user: str) -> bool:
        """Let a user wait no more for a desktop of a pool (its id); did it wait?"""

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""

    def book(self, booking: Booking, tenant: str) -> None:
        """Enter a booking."""

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""

    def await_logoff(self, moves: Sequence[LogoffMove]) -> None:
        """Let moves wait; each takes the place of one of the same VM."""

    def end_logoff_move(self, id_: str, outcome: str) -> bool:
        """Let a move (by its id) wait no more; False where it did not any longer."""

    def cancel_booking(self, booking: str) -> None:
        """Cancel a booking by its id; NotFound where there is none."""
