"""NVSwitch boards: partitions, and which GPU sits on which board."""

from __future__ import annotations

from collections import Counter

import pytest

from vgpumgr import catalog

EIGHT = [each for each in catalog.fabric_boards() if each.gpus == 8]


@pytest.mark.parametrize("board", catalog.fabric_boards(), ids=lambda board: board.key)
def test_partitions_are_distinct_sets_of_the_boards_gpus(board: catalog.FabricBoard) -> None:
    sets = [frozenset(each.gpus) for each in board.partitions]
    assert len(set(sets)) == len(sets)
    assert len({each.id for each in board.partitions}) == len(board.partitions)
    for each in board.partitions:
        assert len(set(each.gpus)) == len(each.gpus)
        assert set(each.gpus) <= set(range(1, board.gpus + 1))
        assert (each.nvlinks == 0) == (len(each.gpus) == 1)
    assert catalog.fabric(board.key) is board
    assert board.source


@pytest.mark.parametrize("board", EIGHT, ids=lambda board: board.key)
def test_eight_gpus_are_parted_into_one_two_four_and_eight(board: catalog.FabricBoard) -> None:
    sizes = Counter(len(each.gpus) for each in board.partitions)
    assert sizes == {8: 1, 4: 2, 2: 4, 1: 8}
    for size in sizes:
        parts = [each.gpus for each in board.partitions if len(each.gpus) == size]
        assert sorted(gpu for part in parts for gpu in part) == list(range(1, 9))


def test_pairs_and_ids_differ_between_boards() -> None:
    pairs = {
        board.key: [(each.id, each.gpus) for each in board.partitions if len(each.gpus) == 2]
        for board in EIGHT
    }
    assert pairs["HGX-H100-8"] == [(3, (1, 3)), (4, (2, 4)), (5, (5, 7)), (6, (6, 8))]
    assert pairs["HGX-B200-8"] == [(4, (1, 2)), (5, (3, 4)), (6, (5, 6)), (7, (7, 8))]
    assert pairs["HGX-A100-8"] == [(11, (1, 2)), (12, (3, 4)), (13, (5, 6)), (14, (7, 8))]


def test_eight_a100s_have_the_ids_of_sixteen() -> None:
    eight, sixteen = catalog.fabric("HGX-A100-8"), catalog.fabric("HGX-A100-16")
    assert eight is not None
    assert sixteen is not None
    assert set(eight.partitions) <= set(sixteen.partitions)
    assert not eight.verified


def test_a_gpu_is_recognised_by_uuid_on_a100_only() -> None:
    assert {each.key: each.identity for each in catalog.fabric_boards()} == {
        "HGX-A100-16": "uuid",
        "HGX-A100-8": "uuid",
        "HGX-H100-8": "module-id",
        "HGX-B200-8": "module-id",
    }
    assert catalog.fabric("HGX-2") is None


def test_gpus_made_for_an_nvswitch_board_know_it() -> None:
    seated = {each.key: each.fabric for each in catalog.boards() if each.fabric}
    assert seated == {
        "A100-SXM4-40GB": "HGX-A100-8",
        "A100-SXM4-80GB": "HGX-A100-8",
        "H100-SXM5-80GB": "HGX-H100-8",
        "H100-SXM5-94GB": "HGX-H100-8",
        "H100-SXM5-64GB": "HGX-H100-8",
        "H200-SXM5-141GB": "HGX-H100-8",
        "H20-96GB": "HGX-H100-8",
        "H20-141GB": "HGX-H100-8",
        "B200": "HGX-B200-8",
        "B300": "HGX-B200-8",
    }
    assert all(catalog.fabric(key) for key in seated.values())


def test_gpus_of_eight_a100_sit_on_sixteen_and_on_no_other_board() -> None:
    assert catalog.fits_fabric("HGX-A100-8", "HGX-A100-8")
    assert catalog.fits_fabric("HGX-A100-8", "HGX-A100-16")
    assert not catalog.fits_fabric("HGX-A100-8", "HGX-H100-8")
    assert not catalog.fits_fabric("", "HGX-A100-8")
