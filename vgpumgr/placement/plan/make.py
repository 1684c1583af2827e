"""From a fleet and its history to a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.plan.expected import expected
from vgpumgr.placement.plan.groups import groups_of
from vgpumgr.placement.plan.plan import NoPlan, Plan
from vgpumgr.placement.plan.pools import Pools, pools_of
from vgpumgr.placement.plan.program import solver_is_there

FEWEST = 200
"""Requests of history below which a plan would follow chance."""

LOAD = 0.998
"""How full the plan makes the fleet, of what the mix can: just short, for a choice of ways."""


EFFORT = 20_000_000
"""Iterations times coefficients, each time a program is solved: 2.5 s of a core at most (0.12 µs
each); 1,213 hosts with 14 kinds of GPU take 1.3 to 3 million."""


def make_plan(
    fleet: Fleet, history: Sequence[VmSpec], *, load: float = LOAD, effort: int = EFFORT
) -> Plan | NoPlan:
    """A plan for what the fleet has free, if requests go on to come like the history.

    ``load`` is how full it makes the fleet, of the fullest that this mix can (0 to 1). There is
    none without highspy, with fewer than 200 requests in the history, where the program is too
    large (more than 150,000 ways of putting a part on a GPU), or where ``effort`` does not solve it
    any of the two times (up to five where models of GPUs are scarce).
    """
    if len(history) < FEWEST:
        return NoPlan.TOO_FEW
    if not fleet.hosts:
        return NoPlan.NO_ROOM
    if not solver_is_there():
        return NoPlan.NO_SOLVER
    groups = groups_of(history)
    pools = pools_of(fleet, groups)
    if not pools.may.any():
        return NoPlan.NO_ROOM
    found = expected(pools, groups, load=load, effort=effort)
    if isinstance(found, NoPlan):
        return found
    prices = tuple(
        (pools.table.parts.all[column], price) for column, price in sorted(found.prices.items())
    )
    known = {group.key: number for number, group in enumerate(groups) if _taken(pools, number)}
    return Plan(pools.class_of, known, found.taken, prices, found.fits)


def _taken(pools: Pools, group: int) -> bool:
    """A group that nothing takes now has no quota."""
    return bool(np.any(pools.may[:, group]))
