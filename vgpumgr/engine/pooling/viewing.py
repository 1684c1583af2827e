"""A pool as its controller sees it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.host import HostRecord
from vgpumgr.model.pool import Booking, DesktopRecord, PoolAsk, PoolRecord, PoolView
from vgpumgr.pools import served_by


def view_of(
    pool: PoolRecord,
    *,
    pools: Sequence[PoolRecord],
    rows: Sequence[DesktopRecord],
    asks: Sequence[PoolAsk],
    bookings: Sequence[Booking],
    hosts: Sequence[HostRecord],
    startable: int,
    now: float,
) -> PoolView:
    """What of all there is concerns this pool."""
    specs = [each.spec for each in pools if not each.closing]
    return PoolView(
        pool=pool.spec,
        desktops=tuple(each.desktop for each in rows if each.pool == pool.id),
        now=now,
        startable=startable,
        asks=tuple(each.ask for each in asks if each.pool == pool.id),
        rollout=pool.rollout,
        draining={host.name: host.logoff_by for host in hosts if host.draining},
        bookings=tuple(each for each in bookings if served_by(each, specs) == pool.spec),
        closing=pool.closing,
    )
