"""The catalogue: built from its sources, looked up by key, PCI id and profile name."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from vgpumgr import catalog
from vgpumgr.catalog import build


@pytest.mark.parametrize("name", build.SHIPPED)
def test_the_committed_json_is_what_the_yaml_builds(name: str) -> None:
    """Run ``python -m vgpumgr.catalog.build`` when this fails."""
    assert (build.HERE / "data" / f"{name}.json").read_bytes() == build.built(name)


def test_every_source_file_builds_and_ships() -> None:
    found = {source.stem for source in (build.HERE / "source").glob("*.yaml")}
    assert found == set(build.SHIPPED)
    for name in found:
        assert build.built(name).startswith(b'{"schema":'), name


def test_every_board_and_every_type_of_the_sources_is_looked_up() -> None:
    gpus = yaml.load(build.built("gpus"), yaml.CSafeLoader)["gpus"]
    types = yaml.load(build.built("vgpu_types"), yaml.CSafeLoader)["boards"]
    assert [each.key for each in catalog.boards()] == [row["key"] for row in gpus]
    for row in types:
        board = catalog.board(row["board"])
        assert board is not None, row["board"]
        assert board.vendor_device == "10de:" + row["pci_device"].removeprefix("0x")
        assert board.host_mode == row["host_mode"]
        assert [each.name for each in board.types] == [each["name"] for each in row["types"]]


def test_a_board_carries_its_facts_and_their_source() -> None:
    board = catalog.board("V100-PCIE-32GB")
    assert board is not None
    assert (board.vendor_device, board.memory_gib, board.arch) == ("10de:1db6", 32, "volta")
    assert (board.host_mode, board.mig_capable, board.mmio64_mib) == ("mdev-on-pf", False, 65536)
    assert "MMIO table" in board.source


def test_a_type_carries_its_facts_and_their_source() -> None:
    board = catalog.board("T4")
    assert board is not None
    found = next(each for each in board.types if each.profile == "T4-4Q")
    assert (found.id, found.name, found.series) == (232, "GRID T4-4Q", "Q")
    assert (found.fb_mib, found.max_gpu, found.multi_vgpu) == (4096, 4, True)
    assert found.verified
    assert "vgpuConfig.xml" in found.source


def test_a_type_carries_what_the_driver_describes_it_by() -> None:
    by_profile = {each.profile: each for board in catalog.boards() for each in board.types}
    t4, blackwell = by_profile["T4-4Q"], by_profile["RTX Pro 6000 Blackwell DC-8Q"]
    assert (t4.guest_fb_mib, t4.heads, t4.resolution, t4.frl_fps) == (3776, 4, "7680x4320", 60)
    assert (blackwell.guest_fb_mib, blackwell.heads) == (None, None)
    assert (blackwell.resolution, blackwell.frl_fps) == ("", None)
    assert (t4.mig, t4.mig_id, t4.max_per_gi) == ("", None, 1)
    shared = by_profile["RTX Pro 6000 Blackwell DC-1-2Q"]
    assert (shared.mig, shared.mig_id, shared.max_per_gi) == ("1g.24gb+gfx", 47, 12)


def test_a_board_carries_what_the_driver_can_do_with_it() -> None:
    a40, h100, m60 = catalog.board("A40"), catalog.board("H100-PCIE-80GB"), catalog.board("M60")
    assert a40 is not None
    assert h100 is not None
    assert m60 is not None
    assert (a40.mixed_size, a40.same_size_ids_reported, a40.region_gib) == (True, False, 48)
    assert (h100.mixed_size, h100.same_size_ids_reported, h100.region_gib) == (True, True, 80)
    assert (m60.mixed_size, m60.same_size_ids_reported, m60.region_gib) == (False, False, None)
    assert [each.fractional_multi_vgpu for each in (a40, h100, m60)] == [True, True, False]
    assert (a40.fabric, h100.fabric) == ("", "")


def test_vfs_are_a_total_or_a_count_that_is_reached() -> None:
    a40, h100, pro = (catalog.board(each) for each in ("A40", "H100-SXM5-80GB", "RTX-PRO-6000-BSE"))
    assert a40 is not None
    assert h100 is not None
    assert pro is not None
    assert (a40.sriov_vfs, a40.sriov_vfs_verified, a40.vf_offset) == (32, True, 4)
    assert (h100.sriov_vfs, h100.sriov_vfs_verified) == (20, False)
    assert (pro.sriov_vfs, pro.sriov_vfs_verified, pro.vf_offset) == (48, True, 2)
    for board in (each for each in catalog.boards() if each.types):
        most = max(each.max_gpu for each in board.types)
        assert not board.sriov_vfs or board.sriov_vfs >= most, board.key


def test_the_rows_agree_on_several_vgpus_smaller_than_the_gpu() -> None:
    for row in yaml.load(build.built("vgpu_types"), yaml.CSafeLoader)["boards"]:
        board = catalog.board(row["board"])
        assert board is not None
        stated = row["fractional_multi_vgpu"]
        assert stated in (None, board.fractional_multi_vgpu), board.key


def test_numbers_the_source_lacks_are_worked_out_and_never_called_verified() -> None:
    by_profile = {each.profile: each for board in catalog.boards() for each in board.types}
    no_maximum, no_size = by_profile["A2-3B"], by_profile["GB200-1-24C"]
    assert (no_maximum.fb_mib, no_maximum.max_gpu, no_maximum.verified) == (3072, 5, False)
    assert (no_size.fb_mib, no_size.max_gpu, no_size.verified) == (24576, 7, False)
    assert not by_profile["RTX Pro 6000 Blackwell DC-8Q"].verified


def test_the_rule_for_several_vgpus_in_a_vm_agrees_with_every_row_that_states_it() -> None:
    by_name = {each.name: (board, each) for board in catalog.boards() for each in board.types}
    for rows in yaml.load(build.built("vgpu_types"), yaml.CSafeLoader)["boards"]:
        for row in rows["types"]:
            if "multi_vgpu" not in row or "mig_gi_profile" in row:
                continue
            board, found = by_name[row["name"]]
            fractional = board.arch not in {"maxwell", "pascal"}
            expected = found.series in "QC" and (fractional or found.max_gpu == 1)
            assert row["multi_vgpu"] == expected == found.multi_vgpu, row["name"]


@pytest.mark.parametrize(
    ("vendor_device", "subsystem", "key"),
    [
        ("10de:1eb8", None, "T4"),
        ("10DE:1EB8", "10de:ffff", "T4"),
        ("10de:1e78", "10de:13d9", "RTX6000P"),
        ("10de:1e78", "10de:13d8", "RTX8000P"),
        ("10de:25b6", "10DE:14A9", "A16"),
        ("10de:25b6", None, None),
        ("10de:25b6", "10de:0000", None),
        ("10de:2bb3", "10de:204d", "RTX-PRO-5000-BW"),
        ("10de:2bb3", "10de:227a", None),
        ("1234:1111", None, None),
    ],
)
def test_a_board_is_found_by_pci_id_only_when_it_is_sure(
    vendor_device: str, subsystem: str | None, key: str | None
) -> None:
    found = catalog.board_by_pci(vendor_device, subsystem)
    assert (found and found.key) == key


def test_every_board_is_found_by_each_of_its_own_pci_ids() -> None:
    for board in catalog.boards():
        for subsystem in board.subsystems:
            assert catalog.board_by_pci(board.vendor_device, subsystem) is board


@pytest.mark.parametrize("board", catalog.boards(), ids=lambda board: board.key)
def test_slots_never_allow_fewer_than_the_driver_does(board: catalog.Board) -> None:
    """And one time-sliced vGPU takes all the memory of its nominal size that the board has."""
    for each in (each for each in board.types if not each.mig):
        units = catalog.allocation_units(board, each)
        assert catalog.slots(board) // units >= each.max_gpu, each.name
        taken = units * catalog.slot_mib(board)
        assert taken >= min(each.fb_mib, board.memory_gib * 1024), each.name


def test_slots_of_mig_backed_types_follow_the_boards_maximum() -> None:
    for board in catalog.boards():
        for each in board.types:
            units = catalog.allocation_units(board, each)
            assert units >= 1
            assert catalog.slots(board) // units >= each.max_gpu, each.name


def test_a_slot_is_a_gib_or_the_smallest_type() -> None:
    t4, m60 = catalog.board("T4"), catalog.board("M60")
    assert t4 is not None
    assert m60 is not None
    assert (catalog.slot_mib(t4), catalog.slots(t4)) == (1024, 16)
    assert (catalog.slot_mib(m60), catalog.slots(m60)) == (512, 16)
    eighth = next(each for each in m60.types if each.profile == "M60-1Q")
    assert catalog.allocation_units(m60, eighth) == 2


def test_a_board_without_vgpu_types_is_given_whole() -> None:
    board = catalog.board("GB300")
    assert board is not None
    assert board.types == ()
    assert catalog.slots(board) == 1


def test_profile_names_drop_the_leading_grid_or_nvidia() -> None:
    assert {"T4-4Q", "A40-8Q", "passthrough"} <= catalog.profiles()
    assert {"1g.10gb", "7g.80gb", "2g.48gb+gfx", "MI300X-1of8"} <= catalog.profiles()
    assert not [name for name in catalog.profiles() if name.startswith(("GRID ", "NVIDIA "))]
    assert catalog.normalise("GRID T4-4Q") == catalog.normalise("NVIDIA T4-4Q") == "T4-4Q"
    assert catalog.normalise("mtty-1") == "mtty-1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("A40-8", "A40-8Q"),
        ("a40-8q", "A40-8Q"),
        ("GRID T4-4q", "T4-4Q"),
        ("passthru", "passthrough"),
        ("1g.10g", "1g.10gb"),
        ("3G.40gb", "3g.40gb"),
        ("1g.24gb-gfx", "1g.24gb+gfx"),
        ("mi300x-1of7", "MI300X-1of8"),
    ],
)
def test_a_misspelt_profile_has_near_names(typed: str, meant: str) -> None:
    assert meant in catalog.suggest(typed)


def test_suggestions_include_names_learned_from_hosts() -> None:
    assert catalog.suggest("i915-GVTg_V5_3", {"i915-GVTg_V5_4"})[0] == "i915-GVTg_V5_4"
    assert catalog.suggest("zzzzzz") == ()


def test_the_catalogue_loads_without_heavy_imports() -> None:
    program = (
        "import sys\nfrom vgpumgr import catalog\ncatalog.boards()\n"
        "assert not {'yaml', 'pydantic', 'numpy', 'lxml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_table_is_read_when_it_is_asked_for() -> None:
    program = (
        "from vgpumgr import catalog\nfrom vgpumgr.catalog.shipped_tables import table\n"
        "assert table.cache_info().currsize == 0\ncatalog.boards()\n"
        "assert table.cache_info().currsize == 2\ncatalog.xid(79)\n"
        "assert table.cache_info().currsize == 3\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_boards_are_read_once() -> None:
    assert catalog.boards() is catalog.boards()
    assert catalog.board("T4") is catalog.board("T4")
