"""GPUs whose plain VFs are given: AMD and Intel."""

from __future__ import annotations

import pytest

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table


def test_every_row_is_looked_up_by_key_and_pci_id() -> None:
    rows = table("sriov_gpus")["gpus"]
    assert [each.key for each in catalog.sriov_boards()] == [row["key"] for row in rows]
    for each in catalog.sriov_boards():
        assert catalog.sriov_board(each.key) is each
        assert catalog.sriov_board_by_pci(each.vendor_device) == each
        assert each.source
    assert catalog.sriov_board("T4") is None


def test_pci_ids_are_never_those_of_another_room_of_the_catalogue() -> None:
    known = [each.vendor_device for each in catalog.sriov_boards()]
    assert len(set(known)) == len(known)
    assert not set(known) & {each.vendor_device for each in catalog.boards()}


@pytest.mark.parametrize(
    ("vendor_device", "key", "vf_device"),
    [
        ("1002:74a1", "MI300X", "1002:74b5"),
        ("1002:74A1", "MI300X", "1002:74b5"),
        ("1002:74a2", "MI308X", "1002:74b6"),
        ("1002:74a8", "MI308X", "1002:74bc"),
        ("8086:56c0", "FLEX-170", "8086:56c0"),
        ("8086:e212", "ARC-PRO-B50", "8086:e212"),
    ],
)
def test_a_variant_is_found_with_its_own_ids(vendor_device: str, key: str, vf_device: str) -> None:
    found = catalog.sriov_board_by_pci(vendor_device)
    assert found is not None
    assert (found.key, found.vendor_device) == (key, vendor_device.lower())
    assert found.vf_device == vf_device


def test_a_vf_is_no_board() -> None:
    assert catalog.sriov_board_by_pci("1002:74b5") is None
    assert catalog.sriov_board_by_pci("10de:1eb8") is None


def test_facts_of_amd_and_intel() -> None:
    amd, intel = catalog.sriov_board("MI300X"), catalog.sriov_board("FLEX-170")
    assert amd is not None
    assert intel is not None
    assert (amd.driver, amd.allowed_vf_counts, amd.numvfs_writable) == ("gim", (1, 8), False)
    assert (amd.memory_gib, amd.total_vfs, amd.pf_class) == (192, None, "120000")
    assert (intel.driver, intel.total_vfs, intel.numvfs_writable) == ("i915", 31, True)
    assert intel.allowed_vf_counts == tuple(range(1, 32))


def test_what_nobody_states_is_unknown() -> None:
    v620, hf = catalog.sriov_board("V620"), catalog.sriov_board("MI300X-HF")
    assert v620 is not None
    assert hf is not None
    assert (v620.driver, v620.numvfs_writable, v620.allowed_vf_counts) == ("", False, ())
    assert (hf.memory_gib, hf.pf_class) == (None, "")
    assert catalog.vf_memory_mib(hf, 1) is None


@pytest.mark.parametrize(
    ("key", "count", "mib"),
    [
        ("MI300X", 1, 196288),
        ("MI300X", 8, 24536),
        ("MI210", 1, 65536),
        ("FLEX-140", 6, 960),
        ("ARC-PRO-B50", 8, 2016),
    ],
)
def test_vfs_share_the_memory_equally(key: str, count: int, mib: int) -> None:
    board = catalog.sriov_board(key)
    assert board is not None
    assert catalog.vf_memory_mib(board, count) == mib


def test_intels_own_table_of_vf_memory_is_what_is_worked_out() -> None:
    for row in table("sriov_gpus")["gpus"]:
        for each in row.get("vf_profiles", ()):
            board = catalog.sriov_board(row["key"])
            assert board is not None
            assert catalog.vf_memory_mib(board, each["vfs"]) == each["mib"], row["key"]


def test_a_vf_profile_is_read_back() -> None:
    for board in catalog.sriov_boards():
        for count in board.allowed_vf_counts:
            name = catalog.vf_profile(board.key, count)
            assert catalog.parse_vf_profile(name) == (board.key, count)
            assert name in catalog.profiles()
    assert catalog.vf_profile("MI300X", 8) == "MI300X-1of8"


@pytest.mark.parametrize("name", ["A40-8Q", "1g.10gb", "-1of8", "MI300X-1of0", "MI300X-1of08", ""])
def test_other_names_are_no_vf_profile(name: str) -> None:
    assert catalog.parse_vf_profile(name) is None
