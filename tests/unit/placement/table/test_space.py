"""The states of one GPU: how many there are, and that coming and going are each other's reverse."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.placement.pools.boards import TableBoard, mig_board, vdi_board
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.scores.state_values import state_classes
from vgpumgr.placement.tables.state_space import StateSpace, state_space

STARTS = {0: range(7), 1: (0, 2, 4, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 5: (0,)}
SIZES, SLICES = (1, 2, 2, 4, 4, 8), (1, 1, 2, 3, 4, 7)


@pytest.fixture(scope="module")
def mig() -> TableBoard:
    return mig_board()


@pytest.fixture(scope="module")
def vdi() -> TableBoard:
    return vdi_board()


def layouts() -> set[frozenset[tuple[int, int]]]:
    """Every way to cut an A100 of 80 GB up, from its published starts alone."""
    found = {frozenset[tuple[int, int]]()}
    todo = list(found)
    for layout in todo:
        taken = {s for part, at in layout for s in range(at, at + SIZES[part])}
        slices = sum(SLICES[part] for part, _ in layout)
        for part, starts in STARTS.items():
            for at in starts:
                free = taken.isdisjoint(range(at, at + SIZES[part]))
                if free and slices + SLICES[part] <= 7 and layout | {(part, at)} not in found:
                    found.add(layout | {(part, at)})
                    todo.append(layout | {(part, at)})
    return found


def held(space: StateSpace, state: int) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(step.part for step in space.leaves[state]).items()))


def test_mig_has_as_many_states_as_there_are_layouts(mig: TableBoard) -> None:
    assert len(mig.space.free) == len(layouts()) == 723


def test_mig_states_hold_what_layouts_hold(mig: TableBoard) -> None:
    cut = Counter(tuple(sorted(Counter(p for p, _ in each).items())) for each in layouts())
    assert Counter(held(mig.space, state) for state in range(723)) == cut


def test_a_same_size_board_has_a_state_per_size_and_count(vdi: TableBoard) -> None:
    assert len(vdi.space.free) == 1 + 24 + 12 + 6 + 3 + 2 + 1


@pytest.mark.parametrize("board", ["mig", "vdi"])
def test_what_comes_can_go(board: str, request: pytest.FixtureRequest) -> None:
    space = request.getfixturevalue(board).space
    for state, takes in enumerate(space.takes):
        for step in (step for ways in takes for step in ways):
            back = [each for each in space.leaves[step.after] if each.part == step.part]
            assert state in [each.after for each in back if each.slots == step.slots]


@pytest.mark.parametrize("board", ["mig", "vdi"])
def test_each_vm_frees_what_it_took(board: str, request: pytest.FixtureRequest) -> None:
    space = request.getfixturevalue(board).space
    size = [space.free[0] - space.free[ways[0].after] for ways in space.takes[0]]
    for state, leaves in enumerate(space.leaves):
        assert space.units - space.free[state] == sum(size[step.part] for step in leaves)


def test_a_gpu_is_found_by_what_is_on_it(mig: TableBoard) -> None:
    gpu = GpuOccupancy("", mig.supply, BoardBook())
    assert mig.space.number(gpu) == 0
    offer = next(each for each in mig.supply.offers if each.profile == "1g.10gb+me")
    gpu.take(offer, gpu.spots(offer)[0])
    assert mig.space.number(gpu) is None, "media extensions are no part of this space"


def test_too_many_states_are_not_enumerated(mig: TableBoard) -> None:
    gpu = GpuOccupancy("", mig.supply, BoardBook())
    assert state_space(gpu, mig.space.parts, most=700) is None


def test_alike_states_are_one_class(mig: TableBoard) -> None:
    classes = state_classes(mig.space)
    assert len(set(classes.tolist())) == 273
    for state, number in enumerate(classes.tolist()):
        first = classes.tolist().index(number)
        assert held(mig.space, state) == held(mig.space, first)
        assert mig.space.free[state] == mig.space.free[first]
