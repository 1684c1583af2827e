"""How many desktops of a pool there can be at a time. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.queue.lifting import fleet_without
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Placer
from vgpumgr.placement.startable import startable


def desktops_at_a_time(view: LedgerView, pool: PoolSpec, desktops: Collection[str]) -> int:
    """As many as fit beside the VMs that are no desktops (``desktops``: ids of those that are), up
    to the pool's maximum.
    """
    placer = Placer(fleet_without(view, desktops), PlacementPolicy.DEPTH_FIRST)
    wanted = replace(pool.desktop, name=pool.name, disks=(), queue=None)
    return startable(placer, wanted, pool.size.max)
