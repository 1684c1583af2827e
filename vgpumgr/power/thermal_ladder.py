"""A GPU that is too hot, step by step: its clocks, its limit, no new VMs, its VMs away. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from vgpumgr.power.power_bands import LEAST_CLOCK_SHARE, LEAST_MHZ, HeldTo

TEMPERATURE = "temperature"
_AND = " and "


class Rung(IntEnum):
    """How far up a GPU is; each rung has what those below it have."""

    NONE = 0
    CLOCKS = 1
    LIMIT = 2
    CORDON = 3
    DRAIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """Degrees Celsius at which a GPU goes up a rung each round, and below which it comes down,
    by one after ``calm_rounds`` in a row.
    """

    hot_c: int = 85
    cool_c: int = 80
    calm_rounds: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatState:
    """The rung of a GPU, the rounds that it has been cool, and its clock when it began (MHz)."""

    rung: Rung = Rung.NONE
    calm: int = 0
    clock_mhz: int | None = None


COOL = HeatState()


def climb(
    state: HeatState, celsius: int | None, clock_mhz: int | None, heat: Heat | None = None
) -> HeatState:
    """The state after a reading; one without a temperature changes nothing."""
    bounds = heat or Heat()
    if celsius is None:
        return state
    if celsius >= bounds.hot_c:
        began = state.clock_mhz if state.rung else clock_mhz
        return HeatState(rung=Rung(min(Rung.DRAIN, state.rung + 1)), clock_mhz=began)
    if celsius >= bounds.cool_c or not state.rung:
        return replace(state, calm=0)
    if state.calm + 1 < bounds.calm_rounds:
        return replace(state, calm=state.calm + 1)
    rung = Rung(min(state.rung, Rung.CORDON) - 1)
    return replace(state, rung=rung, calm=0) if rung else COOL


def held_to(state: HeatState, least_w: int) -> HeldTo | None:
    """The cap of a rung; None below the first."""
    if state.rung is Rung.NONE:
        return None
    clock = None
    if state.clock_mhz is not None:
        clock = max(LEAST_MHZ, int(state.clock_mhz * LEAST_CLOCK_SHARE))
    limit = least_w if state.rung >= Rung.LIMIT or clock is None else None
    return HeldTo(limit_w=limit, clock_mhz=clock, why=TEMPERATURE)


def causes(cap: HeldTo) -> tuple[HeldTo | None, HeatState]:
    """What a cap was for, as a controller finds it that starts: the part of budgets (None: there is
    none), and the state of a GPU that was too hot, on which it is held no tighter than it is.
    """
    names = cap.why.split(_AND)
    budgets = _AND.join(each for each in names if each != TEMPERATURE)
    of_budgets = replace(cap, why=budgets) if budgets else None
    if TEMPERATURE not in names:
        return of_budgets, COOL
    rung = Rung.CLOCKS if cap.limit_w is None else Rung.LIMIT
    clock = cap.clock_mhz
    began = math.ceil(clock / LEAST_CLOCK_SHARE) if clock is not None else None
    return of_budgets, HeatState(rung=rung, clock_mhz=began)


def tighter(one: HeldTo | None, other: HeldTo | None) -> HeldTo | None:
    """A cap that holds what both hold."""
    if one is None or other is None:
        return one or other
    why = _AND.join(dict.fromkeys((one.why, other.why)))
    return HeldTo(
        limit_w=_least(one.limit_w, other.limit_w),
        clock_mhz=_least(one.clock_mhz, other.clock_mhz),
        why=why,
    )


def both(budgets: Mapping[str, HeldTo], heat: Mapping[str, HeldTo]) -> dict[str, HeldTo]:
    """The caps of all GPUs, for their budgets and for their temperature."""
    found = {}
    for gpu in {*budgets, *heat}:
        cap = tighter(budgets.get(gpu), heat.get(gpu))
        if cap is not None:
            found[gpu] = cap
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return min(each for each in (one, other) if each is not None) if one or other else None
