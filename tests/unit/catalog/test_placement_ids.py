"""Placement ids: the driver's rules, computed, against every row of the catalogue's data."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table

BOARDS = [each for each in catalog.boards() if each.types]


def by_name(board: catalog.Board) -> dict[str, dict[str, Any]]:
    rows = next(row for row in table("vgpu_types")["boards"] if row["board"] == board.key)
    return {each["name"]: each for each in rows["types"]}


def vgpu_type(board_key: str, profile: str) -> tuple[catalog.Board, catalog.VgpuType]:
    board = catalog.board(board_key)
    assert board is not None
    return board, next(each for each in board.types if each.profile == profile)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_mixed_ids_of_every_row_are_what_the_rules_give(board: catalog.Board) -> None:
    for each in board.types:
        row = by_name(board)[each.name]
        if "mixed_ids" in row:
            assert catalog.mixed_ids(board, each) == tuple(row["mixed_ids"] or ()), each.name
            assert len(catalog.mixed_ids(board, each)) == (row["mixed_max"] or 0), each.name


def test_ids_that_no_row_has_are_of_types_whose_numbers_were_worked_out() -> None:
    unlisted = {
        each.profile
        for board in BOARDS
        for each in board.types
        if catalog.mixed_ids(board, each) and "mixed_ids" not in by_name(board)[each.name]
    }
    types = {each.profile: each for board in BOARDS for each in board.types}
    assert {"A2-3B", "A16-3B", "RTX5000-Ada-3B"} < unlisted
    assert all(not types[each].verified for each in unlisted)
    assert all(types[each].max_gpu == 1 or each.endswith("-3B") for each in unlisted)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_placements_lie_in_the_region_and_never_overlap(board: catalog.Board) -> None:
    for each in board.types:
        size = catalog.placement_size(board, each)
        for ids in (catalog.mixed_ids(board, each), catalog.same_size_ids(board, each) or ()):
            assert all(b - a >= size for a, b in pairwise(ids)), each.name
            assert not ids or 0 <= ids[0] <= ids[-1] + size <= (board.region_gib or 0), each.name


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_same_size_ids_hold_as_many_as_the_driver_makes(board: catalog.Board) -> None:
    for each in (each for each in board.types if not each.mig):
        ids = catalog.same_size_ids(board, each)
        assert (ids is not None) == board.same_size_ids_reported, each.name
        assert ids is None or len(ids) == each.max_gpu, each.name


@pytest.mark.parametrize(
    ("board", "profile", "mixed", "same"),
    [
        # The driver's own comment: A40-1Q never at 8 or 32, beside A40-8Q at 0 or 24.
        ("A40", "A40-8Q", (0, 16, 24, 40), None),
        ("H100-SXM5-80GB", "H100XM-16C", (0, 24, 40, 64), (0, 16, 32, 48, 64)),
        ("H100-SXM5-80GB", "H100XM-8C", (0, 12, 20, 32, 40, 52, 60, 72), tuple(range(0, 80, 8))),
        ("H100-SXM5-80GB", "H100XM-80C", (0,), (0,)),
        ("RTX-PRO-6000-BSE", "RTX Pro 6000 Blackwell DC-32Q", (0, 32, 64), (0, 32, 64)),
        ("T4", "T4-4Q", (), None),
    ],
)
def test_known_placements(
    board: str, profile: str, mixed: tuple[int, ...], same: tuple[int, ...] | None
) -> None:
    on, found = vgpu_type(board, profile)
    assert catalog.mixed_ids(on, found) == mixed
    assert catalog.same_size_ids(on, found) == same


def test_one_gib_types_on_48_gib_lose_ids() -> None:
    a40, l40 = vgpu_type("A40", "A40-1Q"), vgpu_type("L40", "L40-1Q")
    assert len(catalog.mixed_ids(*a40)) == 30
    assert not {8, 32} & set(catalog.mixed_ids(*a40))
    assert len(catalog.mixed_ids(*l40)) == 16


def test_a_2_gib_type_takes_three_in_a_region_of_96_and_its_two_slots_at_same_size() -> None:
    board, found = vgpu_type("RTX-PRO-6000-BSE", "RTX Pro 6000 Blackwell DC-2B")
    assert catalog.placement_size(board, found) == 3
    assert catalog.allocation_units(board, found) == 2
    assert catalog.slots(board) == 96
    assert catalog.placement_slots(board, 93, 3) == (93, 94, 95)


def test_ids_inside_a_gpu_instance_count_from_its_own_start() -> None:
    board, found = vgpu_type("RTX-PRO-6000-BSE", "RTX Pro 6000 Blackwell DC-2-16Q")
    assert catalog.instance_ids(board, found) == (0, 16, 32)
    assert catalog.placement_size(board, found) == 16
    assert catalog.mixed_ids(board, found) == ()
    assert catalog.same_size_ids(board, found) is None


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_only_instances_that_are_shared_have_placement_ids_inside(board: catalog.Board) -> None:
    for each in (each for each in board.types if each.mig):
        profile = catalog.gi_profile(board, each.mig)
        assert profile is not None
        ids, size = catalog.instance_ids(board, each), catalog.placement_size(board, each)
        assert len(ids) == (each.max_per_gi if profile.graphics else 0), each.name
        assert (size > 0) == profile.graphics
        under = len(catalog.slice_slots(board, profile.starts[0], profile.size))
        assert not ids or ids[-1] + size <= under, each.name


def test_a_placement_is_slots_of_one_gib_on_every_board_that_has_the_mode() -> None:
    for board in (each for each in BOARDS if each.mixed_size):
        assert catalog.slot_mib(board) == 1024, board.key
        assert catalog.placement_slots(board, 0, board.region_gib or 0) == tuple(
            range(catalog.slots(board))
        )
