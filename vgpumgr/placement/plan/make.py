"""From a fleet and its history to a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.plan.expected import expected
from vgpumgr.placement.plan.groups import groups_of
from vgpumgr.placement.plan.plan import Plan
from vgpumgr.placement.plan.pools import Pools, pools_of
from vgpumgr.placement.plan.program import solver_is_there

FEWEST = 200
"""Requests of history below which a plan would follow chance."""

LOAD = 0.998
"""How full the plan makes the fleet, of what the mix can: just short, for a choice of ways."""


def make_plan(
    fleet: Fleet, history: Sequence[VmSpec], *, load: float = LOAD, seconds: float = 60.0
) -> Plan | None:
    """A plan for what the fleet has free, if requests go on to come like the history.

    ``load`` is how full it makes the fleet, of the fullest that this mix can (0 to 1). None
    without highspy, with fewer than 200 requests in the history, where the program is too large
    (more than 150,000 ways of putting a part on a GPU), or takes longer than ``seconds`` any of the
    two times that it is solved (up to five where models of GPUs are scarce).
    """
    if len(history) < FEWEST or not fleet.hosts or not solver_is_there():
        return None
    groups = groups_of(history)
    pools = pools_of(fleet, groups)
    found = expected(pools, groups, load=load, seconds=seconds)
    if found is None:
        return None
    prices = tuple(
        (pools.table.parts.all[column], price) for column, price in sorted(found.prices.items())
    )
    known = {group.key: number for number, group in enumerate(groups) if _taken(pools, number)}
    return Plan(pools.class_of, known, found.taken, prices, found.fits)


def _taken(pools: Pools, group: int) -> bool:
    """A group that nothing takes now has no quota."""
    return bool(np.any(pools.may[:, group]))
