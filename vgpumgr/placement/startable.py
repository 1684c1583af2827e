"""How many more VMs like this one could start now."""

from __future__ import annotations

from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.headroom import counted
from vgpumgr.placement.placer import Placer


def startable(placer: Placer, request: VmSpec, limit: int) -> int:
    """How many copies of ``request`` the placer would take one after the other, at most ``limit``.

    Counted, or tried and given back where GPU parts compete; ``headroom`` asks it of a fleet.
    """
    demand = placer.standing.digest(request, PlacementPolicy.DEPTH_FIRST)
    found = counted(placer.standing, request, demand, limit)
    return _tried(placer, request, limit) if found is None else found


def _tried(placer: Placer, request: VmSpec, limit: int) -> int:
    tried: list[Placed] = []
    while len(tried) < limit:
        decision = placer.decide(request, explain=False)
        if not isinstance(decision, Placed):
            break
        placer.commit(decision)
        tried.append(decision)
    for placed in reversed(tried):
        placer.release(placed)
    return len(tried)
