"""A plan as a value: what a Placer goes by until a newer one comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.plan.groups import GroupKey
from vgpumgr.placement.table.parts import Part

Floats = NDArray[np.float64]


class NoPlan(StrEnum):
    """Why there is no plan."""

    TOO_FEW = "too few requests so far"
    NO_ROOM = "none of the requests fits the fleet"
    NO_SOLVER = "highspy is not installed (extra lp)"
    TOO_LARGE = "its program is too large for this fleet"
    UNSOLVED = "its program was not solved with the effort that it may cost"

    @property
    def is_a_loss(self) -> bool:
        """A plan would do good here; the others leave nothing to plan, or were chosen."""
        return self in {NoPlan.TOO_LARGE, NoPlan.UNSOLVED}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """``classes`` is the class of each host by name, ``groups`` the number of each group.

    ``quotas`` [classes × groups] is how many requests of a group a class should take from now
    until the fleet is full. ``prices`` are what one part of a VM is worth, in thousandths of the
    whole GPU it lies on. ``fits`` is how many more requests like the history the fleet holds.
    """

    classes: Mapping[str, int]
    groups: Mapping[GroupKey, int]
    quotas: Floats
    prices: tuple[tuple[Part, float], ...]
    fits: float
