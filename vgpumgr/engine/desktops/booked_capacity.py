"""Capacity kept for bookings where others are placed, and bookings that can no longer be kept.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr.engine.desktops.desktop_state import view_of
from vgpumgr.engine.desktops.pool_size import serving_pool, shortages, withheld
from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.model.desktop import Booking, PoolRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.placement import Decision, NotPlaced, Placed, Reason
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.queue import QueueState
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.defrag.fleet_without import one_by_one
from vgpumgr.placement.headroom import startable


def desktops_at_a_time(view: LedgerView, pool: PoolSpec, desktops: Collection[str]) -> int:
    """The number of desktops that fit at a time beside the VMs that are no desktops, up to the
    pool's maximum (``desktops``: ids of the VMs that are desktops).
    """
    placer = Placer(fleet_without(view, desktops), PlacementPolicy.DEPTH_FIRST)
    wanted = replace(pool.desktop, name=pool.name, disks=(), queue=None)
    return startable(placer, wanted, pool.size.max)


BOOKED = "booked"


@dataclass(frozen=True, slots=True)
class BookedCapacity:
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


def place_beside_bookings(
    place: PlaceFunction, ledger: Ledger, now: float, *, but: Collection[str] = ()
) -> PlaceFunction:
    """``place`` with capacity reserved first for bookings at ``now``, except for bookings of pools
    with these ids: the placed VMs are their desktops.
    """
    booked = [each for each in _kept(ledger, now) if each.pool.id not in but]
    if not booked:
        return place

    def beside(
        fleet: Fleet,
        requests: Sequence[VmSpec],
        *,
        kept: Sequence[VmSpec] = (),
        taken: Sequence[Placed] = (),
    ) -> tuple[Decision, ...]:
        return _beside(partial(place, fleet, requests, taken=taken), booked, kept)

    return beside


def booked_desktops(ledger: Ledger, now: float) -> list[VmSpec]:
    """VMs that stand for the desktops that bookings need at ``now`` and that are not there yet."""
    return [each for one in _kept(ledger, now) for each in one.desktops]


def _kept(ledger: Ledger, now: float) -> list[BookedCapacity]:
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
        found.append(BookedCapacity(pool, withheld(view)))
    return [each for each in found if each.count]


def _beside(
    place: Callable[..., tuple[Decision, ...]],
    booked: Sequence[BookedCapacity],
    kept: Sequence[VmSpec],
) -> tuple[Decision, ...]:
    """The decisions; a refusal of a VM that would fit without the reserved capacity says so."""
    stand_ins = [each for one in booked for each in one.desktops]
    decided = place(kept=[*kept, *stand_ins])
    if all(isinstance(each, Placed) for each in decided):
        return decided
    free = place(kept=kept)
    reasons = tuple(Reason(code=BOOKED, host="", text=each.words) for each in booked)
    return tuple(
        replace(one, reasons=reasons)
        if isinstance(one, NotPlaced) and isinstance(without, Placed)
        else one
        for one, without in zip(decided, free, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetBooking:
    """``missing`` of a booking's desktops find no room beside the VMs that will still run then."""

    booking: Booking
    pool: str
    missing: int

    @property
    def words(self) -> str:
        """``booking 3f2a91c0 (8 × T4-4Q for class, pool lab) cannot be kept: 4 are missing``."""
        it = self.booking
        are = "is" if self.missing == 1 else "are"
        what = f"booking {it.id} ({it.count} × {it.profile} for {it.group}, pool {self.pool})"
        return f"{what} cannot be honoured: {self.missing} {are} missing"


class OpenBookings:
    """Bookings that are not over, with the pools that serve them, and the VMs (by id) that are
    desktops: these are deleted where a booking needs their capacity.
    """

    def __init__(self, ledger: Ledger, now: float) -> None:
        self._now = now
        self._bookings = [each for each in ledger.bookings() if each.end > now]
        pools: Sequence[PoolRecord] = ledger.pools() if self._bookings else ()
        self._pools = [each.spec for each in pools if not each.closing]
        rows = ledger.desktops() if self._bookings else ()
        self._desktops = {each.vm_id for each in rows if each.vm_id}

    def unkept(self, view: LedgerView, placed: Collection[Placed] = ()) -> tuple[UnmetBooking, ...]:
        """By this reading of the ledger, with the VMs of ``placed`` on top."""
        return tuple(self._found(view, placed))

    def outdone_by(self, view: LedgerView, placed: Collection[Placed]) -> tuple[UnmetBooking, ...]:
        """The bookings that miss more desktops because of the VMs of ``placed``."""
        if not self._bookings or not placed:
            return ()
        before = {each.booking.id: each.missing for each in self.unkept(view)}
        after = self.unkept(view, placed)
        return tuple(each for each in after if each.missing > before.get(each.booking.id, 0))

    def _found(self, view: LedgerView, placed: Collection[Placed]) -> Iterator[UnmetBooking]:
        rooms: dict[tuple[str, frozenset[str]], int] = {}
        by = ((each, serving_pool(each, self._pools)) for each in self._bookings)
        served = {booking: pool for booking, pool in by if pool is not None}

        def room(booking: Booking) -> int:
            pool = served[booking]
            gone = self._gone(view, booking.start)
            key = pool.name, frozenset((*gone, *_lasting(placed, self._now, booking.start)))
            if key not in rooms:
                lasting = [each for each in placed if each.request.name in key[1]]
                rooms[key] = _room(fleet_without(view, gone), pool, lasting)
            return rooms[key]

        for booking, missing in shortages(served, room):
            if missing:
                yield UnmetBooking(booking=booking, pool=served[booking].name, missing=missing)

    def _gone(self, view: LedgerView, start: float) -> frozenset[str]:
        """Desktops, and VMs of the queue that have surely ended by then."""
        ends = {
            each.vm_id
            for each in view.queue
            if each.state is QueueState.RUNNING
            and each.terms.runtime_s is not None
            and (each.started_at or each.since) + each.terms.runtime_s <= start
        }
        return frozenset(self._desktops | ends)


def _lasting(placed: Collection[Placed], now: float, start: float) -> Iterator[str]:
    """The names of placed VMs that may still run then."""
    for each in placed:
        terms = each.request.queue
        runtime_s = terms.runtime_s if terms is not None else None
        if runtime_s is None or now + runtime_s > start:
            yield each.request.name


def _room(fleet: Fleet, pool: PoolSpec, placed: Sequence[Placed]) -> int:
    """How many desktops fit at a time, up to the pool's maximum."""
    placer = Placer(fleet, PlacementPolicy.DEPTH_FIRST)
    for each in one_by_one(fleet, placed):
        placer.commit(each)
    wanted = replace(pool.desktop, name=pool.name, disks=(), queue=None)
    return startable(placer, wanted, pool.size.max)
