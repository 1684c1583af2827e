"""MIG: profiles per board, the vGPU types behind them, compute instances, slices and slots."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table

MIG_BOARDS = [each for each in catalog.boards() if catalog.mig(each)]
PLAIN = [each for each in MIG_BOARDS if "RTX" not in each.key]

# Types whose nominal size is more than the name of their profile says: NVIDIA's own numbers
# differ between the vGPU and the MIG documents (GB200: 189 and 186 GiB; H100 94 GB: 24672 MiB).
LARGER_THAN_THEIR_PROFILE = {
    *(f"H100{board}-{n}-24C" for board in ("L", "XL") for n in (1, 2)),
    "GB200-1-24C",
    "GB200-1-24CME",
    "GB200-3-95C",
    "GB200-4-95C",
    "GB200-7-189C",
}


def mig(key: str) -> tuple[catalog.Board, catalog.MigBoard]:
    board = catalog.board(key)
    assert board is not None
    found = catalog.mig(board)
    assert found is not None
    return board, found


def profile(key: str, name: str) -> catalog.GiProfile:
    found = catalog.gi_profile(mig(key)[0], name)
    assert found is not None
    return found


def test_every_capable_board_has_profiles_or_only_names_of_them() -> None:
    without = {each.key for each in catalog.boards() if each.mig_capable and not catalog.mig(each)}
    assert without == {"RTX-PRO-5000-BW", "RTX-PRO-4500-BW"}
    assert all(each.mig_capable for each in MIG_BOARDS)


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_a_board_gets_the_row_of_its_own_device_and_memory(board: catalog.Board) -> None:
    found = catalog.mig(board)
    assert found is not None
    row = next(each for each in table("mig_profiles")["gpus"] if each["gpu"] == found.key)
    assert board.vendor_device.removeprefix("10de:") in row["pci_devices"]
    assert (found.grid, found.gpu_slices) == (row["memory_grid"], row["gpu_slices_total"])
    assert [each.name for each in found.profiles] == [each["name"] for each in row["gi_profiles"]]
    whole = max(found.profiles, key=lambda each: each.size)
    assert whole.name.startswith(f"{found.gpu_slices}g.{board.memory_gib}gb")
    assert found.source


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_places_lie_on_the_grid_apart_and_bear_the_maximum(board: catalog.Board) -> None:
    found = catalog.mig(board)
    assert found is not None
    for each in found.profiles:
        assert each.starts[-1] + each.size <= found.grid, each.name
        assert all(b - a >= each.size for a, b in pairwise(each.starts)), each.name
        most = min(len(each.starts), found.gpu_slices // each.gpu_slices)
        assert each.max_instances == (1 if each.media else most), each.name


def test_ids_names_and_places_are_those_of_the_captures() -> None:
    assert {each.name: each.id for each in mig("H100-SXM5-80GB")[1].profiles} == {
        "1g.10gb": 19,
        "1g.10gb+me": 20,
        "1g.20gb": 15,
        "2g.20gb": 14,
        "3g.40gb": 9,
        "4g.40gb": 5,
        "7g.80gb": 0,
    }
    assert profile("A100-SXM4-80GB", "3g.40gb").starts == (0, 4)
    assert profile("A100-SXM4-80GB", "1g.20gb").starts == (0, 2, 4, 6)
    assert profile("RTX-PRO-6000-BSE", "2g.48gb+gfx").starts == (0, 6)
    assert profile("RTX-PRO-6000-BSE", "1g.24gb+gfx").memory_mib == 23680


def test_media_and_graphics_follow_the_name() -> None:
    assert {each.name for each in mig("A30")[1].profiles if each.media} == {
        "1g.6gb+me",
        "2g.12gb+me",
    }
    pro = mig("RTX-PRO-6000-BSE")[1].profiles
    assert {each.name for each in pro if each.media} == {
        "1g.24gb+me",
        "1g.24gb+me.all",
        "2g.48gb+me.all",
    }
    assert {each.id for each in pro if each.graphics} == {47, 35, 32}


def test_what_is_assumed_is_not_called_verified() -> None:
    assert mig("H100-SXM5-80GB")[1].verified
    assert not mig("B200")[1].verified
    assert not profile("H200-SXM5-141GB", "1g.35gb").verified
    assert profile("H200-SXM5-141GB", "1g.35gb").memory_mib is None


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_every_mig_backed_type_belongs_to_a_profile(board: catalog.Board) -> None:
    for each in (each for each in board.types if each.mig):
        behind = catalog.gi_profile(board, each.mig)
        assert behind is not None, each.name
        assert each.mig_id == behind.id, each.name
        assert each.max_gpu == behind.max_instances * each.max_per_gi, each.name
        assert each in catalog.mig_types(board, each.mig)


def test_types_larger_than_the_name_of_their_profile_are_known() -> None:
    larger = {
        each.profile
        for board in MIG_BOARDS
        for each in board.types
        if each.mig and each.fb_mib * each.max_per_gi > nominal_mib(each.mig)
    }
    assert larger == LARGER_THAN_THEIR_PROFILE


def nominal_mib(profile_name: str) -> int:
    return int(profile_name.partition("g.")[2].partition("gb")[0]) * 1024


@pytest.mark.parametrize("board", PLAIN, ids=lambda board: board.key)
def test_without_graphics_a_profile_means_its_one_c_type(board: catalog.Board) -> None:
    found = catalog.mig(board)
    assert found is not None
    for each in found.profiles:
        types = catalog.mig_types(board, each.name)
        if not board.types:
            assert (types, catalog.whole_instance_type(board, each.name)) == ((), None)
            continue
        assert [(one.series, one.max_per_gi) for one in types] == [("C", 1)], each.name
        assert catalog.whole_instance_type(board, each.name) == types[0]


def test_on_rtx_pro_only_graphics_profiles_carry_vgpus() -> None:
    board, found = mig("RTX-PRO-6000-BSE")
    for each in found.profiles:
        assert bool(catalog.mig_types(board, each.name)) == each.graphics, each.name
    types = catalog.mig_types(board, "1g.24gb+gfx")
    assert len(types) == 19
    assert [each.series for each in types][:4] == ["C", "C", "C", "B"]
    whole = catalog.whole_instance_type(board, "1g.24gb+gfx")
    assert whole is not None
    assert whole.profile == "RTX Pro 6000 Blackwell DC-1-24Q"
    assert catalog.whole_instance_type(board, "1g.24gb") is None
    workstation, _ = mig("RTX-PRO-6000-BWE")
    assert catalog.mig_types(workstation, "1g.24gb+gfx") == ()


def test_compute_instances_are_named_as_the_driver_prints_them() -> None:
    three = profile("A100-SXM4-40GB", "3g.20gb").compute
    assert [(each.name, each.id, each.slices, each.max_instances) for each in three] == [
        ("1c.3g.20gb", 0, 1, 3),
        ("2c.3g.20gb", 1, 2, 1),
        ("3g.20gb", 2, 3, 1),
    ]
    assert all(each.verified for each in three)
    assert [each.name for each in profile("A30", "4g.24gb").compute] == [
        "1c.4g.24gb",
        "2c.4g.24gb",
        "4g.24gb",
    ]


def test_hoppers_1g_with_two_memory_slices_has_a_compute_profile_of_its_own() -> None:
    assert [each.id for each in profile("H100-SXM5-80GB", "1g.20gb").compute] == [7]
    assert [each.id for each in profile("H100-SXM5-80GB", "1g.10gb").compute] == [0]
    assert [each.id for each in profile("A100-SXM4-80GB", "1g.20gb").compute] == [0]


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_every_instance_has_one_compute_instance_of_full_size(board: catalog.Board) -> None:
    found = catalog.mig(board)
    assert found is not None
    for each in found.profiles:
        full = [one for one in each.compute if one.name == each.name]
        assert [(one.slices, one.max_instances) for one in full] == [(each.gpu_slices, 1)]
        assert all(one.slices * one.max_instances <= each.gpu_slices for one in each.compute)
        assert all(one.verified == (board.arch == "ampere") for one in each.compute)


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_slices_part_the_slots(board: catalog.Board) -> None:
    found = catalog.mig(board)
    assert found is not None
    parts = [catalog.slice_slots(board, each, 1) for each in range(found.grid)]
    assert [slot for part in parts for slot in part] == list(range(catalog.slots(board)))
    sizes = {len(part) for part in parts}
    assert max(sizes) - min(sizes) <= 1
    for each in found.profiles:
        for start in each.starts:
            under = [slot for part in parts[start : start + each.size] for slot in part]
            assert catalog.slice_slots(board, start, each.size) == tuple(under)


def test_slices_outside_the_grid_are_refused() -> None:
    board, _ = mig("H100-SXM5-80GB")
    for start, size in ((-1, 1), (0, 0), (7, 2), (8, 1)):
        with pytest.raises(ValueError, match="H100-SXM5-80GB has no MIG slices"):
            catalog.slice_slots(board, start, size)
    t4 = catalog.board("T4")
    assert t4 is not None
    with pytest.raises(ValueError, match="T4 has no MIG slices"):
        catalog.slice_slots(t4, 0, 1)


@pytest.mark.parametrize("board", MIG_BOARDS, ids=lambda board: board.key)
def test_as_many_vgpus_as_the_driver_makes_fit_under_an_instance(board: catalog.Board) -> None:
    for each in (each for each in board.types if each.mig):
        behind = catalog.gi_profile(board, each.mig)
        assert behind is not None
        for start in behind.starts:
            under = len(catalog.slice_slots(board, start, behind.size))
            units = catalog.allocation_units(board, each)
            assert 1 <= units * each.max_per_gi <= under, each.name
            # A second vGPU of an instance that is not shared never fits beside the first.
            assert under // units == each.max_per_gi or each.max_per_gi > 1, each.name
