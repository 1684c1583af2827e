"""Whoever is placed while a booking holds leaves the room that its desktops still need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.outlook import Place
from vgpumgr.engine.pooling.viewing import view_of
from vgpumgr.model.placement import Decision, Fleet, NotPlaced, Placed, Reason
from vgpumgr.model.pool import PoolRecord
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import VmSpec
from vgpumgr.pools import withheld

BOOKED = "booked"


@dataclass(frozen=True, slots=True)
class Kept:
    """So many desktops of a pool that bookings may ask for, and that are not there yet."""

    pool: PoolRecord
    count: int

    @property
    def desktops(self) -> list[VmSpec]:
        """VMs that stand for them."""
        name = f"booked-{self.pool.name}"
        return [replace(self.pool.spec.desktop, name=name, disks=(), queue=None)] * self.count

    @property
    def words(self) -> str:
        """``room for 4 × T4-4Q is reserved for bookings of pool cad``."""
        part = self.pool.spec.profile or "desktops"
        return (
            f"capacity for {self.count} × {part} is reserved for bookings of pool {self.pool.name}"
        )


def placing_beside(place: Place, ledger: Ledger, now: float, *, but: Collection[str] = ()) -> Place:
    """``place``, but what bookings need at ``now`` is taken first, except of pools with these
    ids: what is placed is theirs.
    """
    booked = [each for each in _kept(ledger, now) if each.pool.id not in but]
    if not booked:
        return place

    def beside(
        fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        return _beside(place, fleet, requests, booked, kept)

    return beside


def booked_desktops(ledger: Ledger, now: float) -> list[VmSpec]:
    """VMs that stand for the desktops that bookings need at ``now`` and that are not there yet."""
    return [each for one in _kept(ledger, now) for each in one.desktops]


def _kept(ledger: Ledger, now: float) -> list[Kept]:
    bookings = ledger.bookings()
    if not bookings:
        return []
    pools, rows = ledger.pools(), ledger.desktops()
    found = []
    for pool in pools:
        view = view_of(
            pool,
            pools=pools,
            rows=rows,
            asks=(),
            bookings=bookings,
            hosts=(),
            startable=0,
            now=now,
        )
        found.append(Kept(pool, withheld(view)))
    return [each for each in found if each.count]


def _beside(
    place: Place,
    fleet: Fleet,
    requests: Sequence[VmSpec],
    booked: Sequence[Kept],
    kept: Sequence[VmSpec],
) -> tuple[Decision, ...]:
    """Those that would fit without what is kept are told of it; a refusal stays true."""
    stand_ins = [each for one in booked for each in one.desktops]
    decided = place(fleet, requests, kept=[*kept, *stand_ins])
    if all(isinstance(each, Placed) for each in decided):
        return decided
    free = place(fleet, requests, kept=kept)
    reasons = tuple(Reason(code=BOOKED, host="", text=each.words) for each in booked)
    return tuple(
        replace(one, reasons=reasons)
        if isinstance(one, NotPlaced) and isinstance(without, Placed)
        else one
        for one, without in zip(decided, free, strict=True)
    )
