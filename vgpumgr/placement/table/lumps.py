"""States that behave alike, now and for ever, as one: fewer to solve for, and the same answer."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from vgpumgr.placement.table.space import StateSpace

Ints = NDArray[np.int64]


def alike(space: StateSpace) -> Ints:
    """The class of each state, numbered from 0 in the order of the states.

    Two states are in one class when each part leads both into the same classes, and so does each
    departure: the coarsest such partition, by refinement. The slices 0-1 and 2-3 of a MIG grid,
    for one, may be swapped: 723 states become 273 classes.
    """
    classes, count = [0] * len(space.free), 1
    while True:
        known: dict[Hashable, int] = {}
        classes = [
            known.setdefault(_sight(space, state, classes), len(known))
            for state in range(len(classes))
        ]
        if len(known) == count:
            return np.array(classes, np.int64)
        count = len(known)


def _sight(space: StateSpace, state: int, classes: list[int]) -> Hashable:
    return (
        space.free[state],
        tuple(
            tuple(sorted({classes[step.after] for step in found})) for found in space.takes[state]
        ),
        tuple(sorted((step.part, classes[step.after]) for step in space.leaves[state])),
    )
