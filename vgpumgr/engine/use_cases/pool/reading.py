"""One reading of all pools, and what it says of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from vgpumgr.engine.booking import Kept
from vgpumgr.engine.pooling import Room, Seen, desktop_spec, view_of
from vgpumgr.engine.running import leftovers
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.pool import (
    Booking,
    DesktopRecord,
    Do,
    PoolAsk,
    PoolRecord,
    PoolSpec,
    PoolView,
)
from vgpumgr.model.vm import VmSpec
from vgpumgr.pools import withheld

_MADE = frozenset({Do.CREATE, Do.RECREATE})


@dataclass(frozen=True)
class Reading:
    """Pools with their desktops and who waits, at ``now``, and the fleet beside them."""

    pools: tuple[PoolRecord, ...]
    rows: tuple[DesktopRecord, ...]
    asks: tuple[PoolAsk, ...]
    bookings: tuple[Booking, ...]
    view: LedgerView
    busy: frozenset[str]
    now: float

    @cached_property
    def seen(self) -> Seen:
        """The fleet as desktops are held against it."""
        return Seen(self.view, self.busy, self.now)

    def pool_of(self, row: DesktopRecord) -> PoolRecord:
        """The pool of a desktop."""
        return next(each for each in self.pools if each.id == row.pool)

    def of(self, pool: PoolRecord, startable: int = 0) -> PoolView:
        """The pool as its controller sees it."""
        return view_of(
            pool,
            pools=self.pools,
            rows=self.rows,
            asks=self.asks,
            bookings=self.bookings,
            hosts=self.view.hosts,
            startable=startable,
            now=self.now,
        )

    def startable(self, pool: PoolRecord) -> int:
        """How many more of its desktops could start, with what is kept for others' bookings.

        Of the image that it has, or of the one that is to come: they may lie on other hosts.
        """
        images = {pool.image, pool.spec.image}
        room = Room(self.view)
        room.promise(self._to_make())
        for each in self.pools if self.bookings else ():
            if each.id != pool.id:
                room.promise(Kept(each, withheld(self.of(each))).desktops)
        wanted = (self._spec(pool.spec, pool.name, image) for image in images)
        return max(room.startable(each, pool.spec.size.max) for each in wanted)

    def _to_make(self) -> Iterator[VmSpec]:
        """What was taken to be made, and holds nothing yet."""
        pools = {each.id: each.spec for each in self.pools}
        for row in self.rows:
            if row.doing in _MADE and row.vm_id not in self.seen.vms:
                yield self._spec(pools[row.pool], row.name, row.desktop.image)

    def _spec(self, pool: PoolSpec, name: str, image: str) -> VmSpec:
        """As far as it counts for room; a retired image has it, too."""
        try:
            return desktop_spec(pool, name, image, self.view.images)
        except Conflict:
            return replace(pool.desktop, name=name, disks=())


def read(session: Session) -> Reading:
    """Read it."""
    ledger = session.ledger
    busy = leftovers.worked_on(ledger)
    return Reading(
        pools=ledger.pools(),
        rows=ledger.desktops(),
        asks=ledger.pool_asks(),
        bookings=ledger.bookings(),
        view=session.view(),
        busy=busy,
        now=session.clock.now(),
    )


def user_of(row: DesktopRecord) -> str:
    """Whose it is now; empty: nobody's."""
    return row.desktop.session.user if row.desktop.session else row.desktop.owner


def unknown_desktop(pool: str, user: str) -> Conflict:
    """The error for a user who has none."""
    return Conflict(f"{user} has no desktop of {pool}", next=f"vgpumgr pool show {pool}")
