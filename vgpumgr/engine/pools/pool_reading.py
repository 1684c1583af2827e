"""One reading of all pools: their desktops, the users that wait, and the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from vgpumgr.engine.desktops.booked_capacity import BookedCapacity
from vgpumgr.engine.desktops.desktop_state import (
    DesktopReading,
    FreeCapacity,
    desktop_spec,
    view_of,
)
from vgpumgr.engine.desktops.pool_size import withheld
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import (
    Booking,
    DesktopRecord,
    DesktopRequestRecord,
    DesktopVerb,
    PoolRecord,
    PoolView,
)
from vgpumgr.model.errors import Conflict
from vgpumgr.model.holiday_calendar import NO_HOLIDAYS, Holidays, holidays_of
from vgpumgr.model.load_scale import LoadWindow
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.vm import VmSpec

NO_WINDOWS: Mapping[str, LoadWindow] = MappingProxyType({})
NO_HABITS: Mapping[str, int] = MappingProxyType({})
_MADE = frozenset({DesktopVerb.CREATE, DesktopVerb.RECREATE})


@dataclass(frozen=True)
class PoolReading:
    """Pools with their desktops and the users that wait, at ``now``, and the fleet that they are
    in; ``loads`` is what the load of their desktops asks for, ``expected`` how many users will
    probably come soon, both by the pool's id.
    """

    pools: tuple[PoolRecord, ...]
    rows: tuple[DesktopRecord, ...]
    asks: tuple[DesktopRequestRecord, ...]
    bookings: tuple[Booking, ...]
    view: LedgerView
    busy: frozenset[str]
    now: float
    loads: Mapping[str, LoadWindow] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)
    holidays: Holidays = field(default_factory=dict)

    @cached_property
    def seen(self) -> DesktopReading:
        """The fleet as desktops are held against it."""
        return DesktopReading(self.view, self.busy, self.now)

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
            load=self.loads.get(pool.id),
            holidays=self.holidays,
            expected=self.expected.get(pool.id, 0),
        )

    def startable(self, pool: PoolRecord) -> int:
        """The number of further desktops that could start without the capacity of other bookings.

        Desktops of the present image, or of the image that is rolled out: they may lie on other
        hosts.
        """
        images = {pool.image, pool.spec.image}
        room = FreeCapacity(self.view)
        room.promise(self._to_make())
        for each in self.pools if self.bookings else ():
            if each.id != pool.id:
                room.promise(BookedCapacity(each, withheld(self.of(each))).desktops)
        wanted = (self._spec(pool.spec, pool.name, image) for image in images)
        return max(room.startable(each, pool.spec.size.max) for each in wanted)

    def _to_make(self) -> Iterator[VmSpec]:
        """Specs of desktops that are being created, and hold nothing yet."""
        pools = {each.id: each.spec for each in self.pools}
        for row in self.rows:
            if row.doing in _MADE and row.vm_id not in self.seen.vms:
                yield self._spec(pools[row.pool], row.name, row.desktop.image)

    def _spec(self, pool: PoolSpec, name: str, image: str) -> VmSpec:
        """The part of a desktop's spec that counts for capacity; with a retired image, too."""
        try:
            return desktop_spec(pool, name, image, self.view.images)
        except Conflict:
            return replace(pool.desktop, name=name, disks=())


def read(
    context: EngineContext,
    loads: Mapping[str, LoadWindow] = NO_WINDOWS,
    expected: Mapping[str, int] = NO_HABITS,
) -> PoolReading:
    """The reading of all pools."""
    ledger = context.ledger
    busy = operation_lifecycle.worked_on(ledger)
    pools = ledger.pools()
    dated = any(each.spec.calendars for each in pools)
    return PoolReading(
        pools=pools,
        rows=ledger.desktops(),
        asks=ledger.pool_asks(),
        bookings=ledger.bookings(),
        view=context.view(),
        busy=busy,
        now=context.clock.now(),
        loads=loads,
        expected=expected,
        holidays=holidays_of(ledger.calendars()) if dated else NO_HOLIDAYS,
    )
