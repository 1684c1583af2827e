"""One turn of a pool: users first, then what is broken, then images, then size."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.pool import Counts, PoolTurn, PoolView
from vgpumgr.pools.asking import serve_all
from vgpumgr.pools.keeping import drain, heal_used, leave_lost, time_out
from vgpumgr.pools.resizing import Need, need, resize
from vgpumgr.pools.rolling import judged, roll
from vgpumgr.pools.sheet import Sheet


def turn(view: PoolView) -> PoolTurn:
    """What to do with the pool now.

    Nothing here deletes, shelves or makes anew a desktop that is somebody's (``Desktop.used``), or
    one of which nothing is known. Sessions end by the pool's own time-outs, the deadline of a
    drained host, the proven loss of a host, and ``update: {when: at-once}`` alone.
    """
    rollout = judged(view)
    view = replace(view, rollout=rollout)
    sheet = Sheet(view)
    serve_all(sheet)
    leave_lost(sheet)
    heal_used(sheet)
    drain(sheet)
    time_out(sheet)
    roll(sheet)
    found = need(sheet)
    resize(sheet, found)
    return PoolTurn(
        actions=tuple(sheet.actions.values()),
        counts=_counts(sheet, found),
        rollout=rollout,
        warnings=tuple(sheet.warnings),
    )


def _counts(sheet: Sheet, found: Need) -> Counts:
    desktops = sheet.view.desktops
    return Counts(
        used=sum(each.used for each in desktops),
        spare=sum(map(sheet.assignable, desktops)),
        coming=sum(each.coming for each in desktops),
        broken=sum(each.broken for each in desktops),
        wanted=found.wanted,
        startable=sheet.view.startable,
        waiting=sheet.unmet,
    )
