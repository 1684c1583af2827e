"""Values of GPU states: against a pool solved exactly, and in what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.placement.pools.boards import TableBoard, mig_board, vdi_board
from benchmarks.placement.pools.table_pool import by_worth
from vgpumgr.placement.scores.state_values import FluidModel, state_classes, state_values
from vgpumgr.placement.tables.state_space import StateSpace

UNIFORM = [1.0] * 6
ONE_G, SEVEN_G = 0, 5


@pytest.fixture(scope="module")
def board() -> TableBoard:
    return mig_board()


@pytest.fixture(scope="module")
def values(board: TableBoard) -> np.ndarray:
    return state_values(board.space, UNIFORM, gpus=100)


def test_an_empty_gpu_is_the_best_and_a_full_one_costs_about_itself(
    board: TableBoard, values: np.ndarray
) -> None:
    full = [s for s, free in enumerate(board.space.free) if not free]
    assert values[0] == 0.0 and values.min() == 0.0
    assert 500 < values[full].mean() < 1500


def test_states_that_are_alike_are_worth_the_same(board: TableBoard, values: np.ndarray) -> None:
    classes = state_classes(board.space)
    for number in range(273):
        assert np.ptp(values[classes == number]) == 0


def test_weights_count_only_against_each_other(board: TableBoard, values: np.ndarray) -> None:
    again = state_values(board.space, [7.0] * 6, gpus=100)
    assert np.allclose(again, values, atol=1e-6)


def test_the_answer_is_the_same_every_time(board: TableBoard, values: np.ndarray) -> None:
    assert (state_values(board.space, UNIFORM, gpus=100) == values).all()


@pytest.mark.parametrize("weights", [[0.0] * 6, [1.0] * 5 + [-1.0]])
def test_a_mix_of_nothing_is_refused(board: TableBoard, weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        state_values(board.space, weights, gpus=100)


def test_small_instances_keep_together(board: TableBoard, values: np.ndarray) -> None:
    """A 1g goes beside another 1g and not onto an empty GPU."""
    ranking, space = by_worth(board.space, values), board.space
    beside = space.takes[0][ONE_G][0].after
    assert ranking.scores[ONE_G, beside] < ranking.scores[ONE_G, 0]


SIZES = np.array([1, 2, 4, 8, 12, 24])
GPUS = 6.0


def test_losses_balance_what_one_gpu_more_changes() -> None:
    """In a plain model, by differences: what is lost now and later is even in all states."""
    space = vdi_board().space
    flow = FluidModel(
        space, state_classes(space), np.array([1.5, 1.0, 0.8, 0.5, 0.3, 0.2]), SIZES, GPUS
    )
    worth = np.sqrt(np.array(space.free, float))
    shares = flow.settle(flow.empty(), worth, 50)
    found = flow.losses(shares, worth)
    drift, lost = model(flow, space, GPUS * shares, worth)
    even = []
    for state in range(len(shares)):
        more = GPUS * shares
        more[state] += 1e-6
        changed, now = model(flow, space, more, worth)
        even.append(((changed - drift) @ found + now - lost) / 1e-6)
    assert np.allclose(even, even[0], atol=1e-3)
    assert found[0] == 0 and np.ptp(found) > 1


def model(
    flow: FluidModel, space: StateSpace, counts: np.ndarray, worth: np.ndarray
) -> tuple[np.ndarray, float]:
    """How the numbers of GPUs by state change, and the units lost, per mean lifetime."""
    drift, lost = np.zeros(len(counts)), 0.0
    for state, leaves in enumerate(space.leaves):
        for step in leaves:
            drift[state] -= counts[state]
            drift[step.after] += counts[state]
    for part, size in enumerate(SIZES):
        rate, chance = float(flow._rates[part]), 1.0
        into = {s: takes[part][0].after for s, takes in enumerate(space.takes) if takes[part]}
        for state in sorted(into, key=lambda s: worth[into[s]] - worth[s]):
            none = float(np.exp(-counts[state]))
            drift[state] -= rate * chance * (1 - none)
            drift[into[state]] += rate * chance * (1 - none)
            chance *= none
        lost += rate * float(size) * chance
    return drift, lost
