"""How many desktops a pool should have at a time."""

from __future__ import annotations

from vgpumgr.model.pool import PoolSpec, Size
from vgpumgr.model.pool.schedule import minute_of_week


def size_at(pool: PoolSpec, now: float) -> Size:
    """What is asked for at ``now``, and already what is asked for when a desktop made now is warm.

    Users come on the minute: a pool that grows only when its hours begin is late.
    """
    here, soon = _declared(pool, now), _declared(pool, now + pool.prewarm_s)
    return Size(min=max(here.min, soon.min), spare=max(here.spare, soon.spare), max=pool.size.max)


def _declared(pool: PoolSpec, now: float) -> Size:
    if not pool.schedules:
        return pool.size
    minute = minute_of_week(now, pool.zone)
    for each in pool.schedules:
        if each.holds(minute):
            return Size(min=each.min, spare=each.spare, max=pool.size.max)
    return pool.size
