"""How much of each group each class of hosts takes when the fleet is full.

First, how many times the mix fits (its duals are prices). Where that ends with what only a few
groups go by (GPUs of a scarce model), they get as much, and then how many times the rest fits; and
so on. At last, nearly that full, the way that leaves the most vCPUs to spare per host. Solved by
interior point, so that what is indifferent is spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.plan.fleet_program import FleetProgram
from vgpumgr.placement.plan.groups import Group
from vgpumgr.placement.plan.plan import NoPlan
from vgpumgr.placement.plan.pools import Pools

Floats = NDArray[np.float64]

MOST_ROUNDS = 3
"""So often groups that are short are set apart; two do nearly always."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """``taken`` [classes × groups] and the price of each column of the table in it (milli GPU)."""

    taken: Floats
    prices: dict[int, float]
    fits: float


def expected(
    pools: Pools, groups: Sequence[Group], *, load: float, effort: int
) -> Expected | NoPlan:
    """NoPlan where the program is too large, or ``effort`` did not solve it (for each time)."""
    found = _fullest(pools, groups, load, effort)
    if isinstance(found, NoPlan):
        return found
    model, fits, duals = found
    even = model.program.solve(effort, fix=[(model.times, load * fits)], free=[model.times])
    if even is None:
        return NoPlan.UNSOLVED
    taken = model.taken(even.values)
    return Expected(taken, model.prices(duals), float(taken.sum()) / load)


def _fullest(
    pools: Pools,
    groups: Sequence[Group],
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
