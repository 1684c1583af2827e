"""Makes a capacity plan of fleet and request history: what each host class takes when full.

First, how many times the mix fits (its duals are prices). Where that ends with what only a few
groups go by (GPUs of a scarce model), they get as much, and then how many times the rest fits;
and so on. At last, nearly that full, the way that leaves the most vCPUs to spare per host.
Solved by interior point, so that what is indifferent is spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.capacity_plan.fleet_program import FleetProgram, solver_is_there
from vgpumgr.placement.capacity_plan.host_pools import HostPools, pools_of
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan, RequestGroup, groups_of

Floats = NDArray[np.float64]

MOST_ROUNDS = 3
"""So often groups that are short are set apart; two do nearly always."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedUse:
    """``taken`` [classes × groups] and the price of each column of the table in it (milli GPU)."""

    taken: Floats
    prices: dict[int, float]
    fits: float


def expected(
    pools: HostPools, groups: Sequence[RequestGroup], *, load: float, effort: int
) -> ExpectedUse | NoPlan:
    """NoPlan where the program is too large, or ``effort`` did not solve it (for each time)."""
    found = _fullest(pools, groups, load, effort)
    if isinstance(found, NoPlan):
        return found
    model, fits, duals = found
    even = model.program.solve(effort, fix=[(model.times, load * fits)], free=[model.times])
    if even is None:
        return NoPlan.UNSOLVED
    taken = model.taken(even.values)
    return ExpectedUse(taken, model.prices(duals), float(taken.sum()) / load)


def _fullest(
    pools: HostPools,
    groups: Sequence[RequestGroup],
    load: float,
    effort: int,
    held: Mapping[int, float] = MappingProxyType({}),
    rounds: int = MOST_ROUNDS,
) -> tuple[FleetProgram, float, Floats] | NoPlan:
    """The program, how many times what grows in it fits, and the duals."""
    model = FleetProgram(pools, groups, held)
    if not model.build():
        return NoPlan.TOO_LARGE
    full = model.program.solve(effort, free=model.spare)
    if full is None:
        return NoPlan.UNSOLVED
    fits = float(full.values[model.times])
    fuller: tuple[FleetProgram, float, Floats] | NoPlan = NoPlan.NO_ROOM
    if short := model.short(full.duals) if rounds else {}:
        more = {number: load * fits * count for number, count in short.items()}
        fuller = _fullest(pools, groups, load, effort, {**held, **more}, rounds - 1)
    if isinstance(fuller, NoPlan) and fits > 0:
        return model, fits, full.duals
    return fuller


FEWEST = 200
"""Requests of history below which a plan would follow chance."""

LOAD = 0.998
"""How full the plan makes the fleet, of what the mix can: just short, for a choice of ways."""


EFFORT = 20_000_000
"""Iterations times coefficients, each time a program is solved: 2.5 s of a core at most (0.12 µs
each); 1,213 hosts with 14 kinds of GPU take 1.3 to 3 million."""


def make_plan(
    fleet: Fleet, history: Sequence[VmSpec], *, load: float = LOAD, effort: int = EFFORT
) -> CapacityPlan | NoPlan:
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
    return CapacityPlan(pools.class_of, known, found.taken, prices, found.fits)


def _taken(pools: HostPools, group: int) -> bool:
    """A group that nothing takes now has no quota."""
    return bool(np.any(pools.may[:, group]))
