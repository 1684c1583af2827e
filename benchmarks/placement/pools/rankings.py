"""The baselines and the product's policies, as rankings over the states of one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.pools.boards import TableBoard, TableKind
from benchmarks.placement.pools.table_pool import Ranking, by_worth, ranked
from vgpumgr.placement.scores.fragmentation import cutting, leftover
from vgpumgr.placement.scores.state_values import state_values
from vgpumgr.placement.tables.state_space import StateSpace, StateTransition

Floats = NDArray[np.float64]
_FAR = 1 << 20


def first_fit(board: TableBoard) -> Ranking:
    """Every GPU with room is as good as another."""
    return ranked(board.space, lambda _state, _step: 0.0, places=False)


def best_fit(board: TableBoard) -> Ranking:
    """The GPU with the least free."""
    free = board.space.free
    return ranked(board.space, lambda state, _step: free[state], places=False)


def breadth_first(board: TableBoard) -> Ranking:
    """The product's: the emptiest GPU, vSphere's default; worst fit where places are free."""
    free = board.space.free
    return ranked(board.space, lambda state, step: _near(-free[state], step), places=False)


def depth_first(board: TableBoard) -> Ranking:
    """The product's: a GPU that is cut up in the right way already, then the fullest."""
    free = board.space.free
    return ranked(
        board.space, lambda state, step: _near(free[state] + _FAR * (not state), step), places=False
    )


def _near(first: float, step: StateTransition) -> float:
    """Where equal, the fewer larger places are broken the better."""
    return first + step.broken / 1000


def capability(board: TableBoard) -> Ranking:
    """The least loss of places that any profile could have: maximum remaining capability."""
    space = board.space
    can = [sum(len(ways) for ways in takes) for takes in space.takes]
    return ranked(space, lambda state, step: can[state] - can[step.after])


def fragmentation(board: TableBoard, shares: Floats) -> Ranking:
    """The increment of free units that a request of the mix cannot use."""
    return by_worth(board.space, waste(board.space, shares))


def least_fragmentation(board: TableBoard, shares: Floats) -> Ranking:
    """The product's policy on hosts of one GPU, with vCPUs and memory to spare."""
    space = board.space
    free = 1000.0 * np.array(space.free) / space.units
    lost = 1000.0 * waste(space, shares) / space.units
    left = leftover(np.zeros_like(free), free / 1000.0) + lost
    cut = cutting(free) - lost
    return ranked(space, lambda state, step: float(left[step.after] + cut[state]), places=False)


def valued(board: TableBoard, shares: Floats, gpus: int) -> Ranking:
    """By the value of a GPU's state to a pool of so many GPUs."""
    return by_worth(board.space, state_values(board.space, shares.tolist(), gpus=gpus))


def waste(space: StateSpace, shares: Sequence[float] | Floats) -> Floats:
    """Free units that a request drawn from the mix cannot use, by state."""
    useless = np.array([[not ways for ways in takes] for takes in space.takes])
    return np.asarray(np.array(space.free) * (useless @ np.asarray(shares)))


Rank = Callable[[TableBoard, Floats, int], Ranking]

RANKINGS: dict[str, Rank] = {
    "first-fit": lambda board, _shares, _gpus: first_fit(board),
    "best-fit": lambda board, _shares, _gpus: best_fit(board),
    "breadth-first": lambda board, _shares, _gpus: breadth_first(board),
    "depth-first": lambda board, _shares, _gpus: depth_first(board),
    "capability": lambda board, _shares, _gpus: capability(board),
    "fgd-uniform": lambda board, shares, _gpus: fragmentation(
        board, np.full(len(shares), 1 / len(shares))
    ),
    "fgd-mix": lambda board, shares, _gpus: fragmentation(board, shares),
    "least-fragmentation": lambda board, shares, _gpus: least_fragmentation(board, shares),
    "values": valued,
}


@cache
def noted(name: str, kind: TableKind, shares: tuple[float, ...], gpus: int) -> Ranking:
    """The ranking, worked out once in a process."""
    return RANKINGS[name](kind(), np.array(shares), gpus)
