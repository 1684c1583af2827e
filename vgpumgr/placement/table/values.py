"""What the state of a GPU is worth to a pool of such GPUs, under a mix of requests.

Waste (``least-fragmentation``) says what of a GPU is useless now. A value says what will be lost
because of it: how much GPU the pool will refuse, in expectation, from now until it has forgotten
that one GPU was in this state and not empty.

The pool is taken as a fluid of GPUs: shares of GPUs by state, flows between them. A request goes
to the best state that some GPU is in, so the chance that it reaches a state is the chance that all
better ones are deserted; it is lost where all are. Linearised about the point where the flows
balance, each state's contribution to later losses solves one linear system. Placing by these
values changes the flows, so both are worked out in turn (policy iteration), in damped steps.

One rule for all mixes and loads. Demand is taken to be as large as the pool: a mix then says
all that is needed, rates do not have to be known, and from 0.7 to 1.15 of it the choices are
the same but for noise. Departures are taken to be equally likely for all VMs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgpumgr.placement.table.flow import Floats, Flow, Ints
from vgpumgr.placement.table.lumps import alike
from vgpumgr.placement.table.space import StateSpace

MILLI = 1000.0
ROUNDS = 40
"""Rounds of policy iteration; the mean of the last third is the answer, for it never settles."""

STEP = 0.15
"""How far each round goes towards the values it finds."""

BURSTS = 4.0
"""How much more the GPUs in a state vary in number than if GPUs were independent.

They are not: demand as a whole goes up and down. Taken as so many times fewer GPUs.
"""


def state_values(space: StateSpace, weights: Sequence[float], *, gpus: int) -> Floats:
    """The expected loss by state, in thousandths of a GPU; 0 for an empty GPU.

    ``weights`` are the shares of the parts in what is asked for, ``gpus`` the size of the pool.
    Lower is better; only differences mean something. An A100 in MIG takes some 0.5 s of CPU.
    Raises ValueError where no weight is positive, or one is negative.
    """
    share = np.array(weights, np.float64)
    sizes = np.array([space.size(part) for part in range(len(space.parts))])
    asked = float(share @ sizes)
    if asked <= 0 or (share < 0).any():
        raise ValueError("no weight of the mix is positive, or one is negative")
    classes = alike(space)
    flow = Flow(space, classes, share * space.units / asked, sizes, max(1.0, gpus / BURSTS))
    found = _iterate(flow, _waste(space, classes, flow.fits))
    return np.asarray(found[classes] * MILLI / space.units)


def _iterate(flow: Flow, values: Floats) -> Floats:
    shares = flow.settle(flow.empty(), values, 40)
    found = flow.losses(shares, values)
    values = values * _scale(shares, found, values)
    kept = []
    for turn in range(ROUNDS):
        values = (1 - STEP) * values + STEP * found
        if 3 * turn >= 2 * ROUNDS:
            kept.append(values)
        shares = flow.settle(shares, values, 3)
        found = flow.losses(shares, values)
    return np.asarray(np.mean(kept, axis=0))


def _scale(shares: Floats, found: Floats, values: Floats) -> float:
    """What makes the first guess, which is of another unit, vary as much as what was found."""
    guessed = float(shares @ (values - shares @ values) ** 2)
    return float(np.sqrt(shares @ (found - shares @ found) ** 2 / guessed)) if guessed else 0.0


def _waste(space: StateSpace, classes: Ints, fits: Ints) -> Floats:
    """The first guess: free units that a part cannot use, all parts alike."""
    free = np.zeros(int(classes.max()) + 1)
    free[classes] = space.free
    return np.asarray((free * (fits == 0)).mean(axis=0))
