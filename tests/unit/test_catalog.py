"""The catalogue: built from its sources, looked up by key, PCI id and profile name."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import yaml

from vgpumgr import catalog
from vgpumgr.catalog import build


@pytest.mark.parametrize("name", build.SHIPPED)
def test_the_committed_json_is_what_the_yaml_builds(name: str) -> None:
    """Run ``python -m vgpumgr.catalog.build`` when this fails."""
    assert (build.HERE / "data" / f"{name}.json").read_bytes() == build.built(name)


def test_every_source_file_builds() -> None:
    for source in (build.HERE / "source").glob("*.yaml"):
        assert build.built(source.stem).startswith(b'{"schema":'), source


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
    ],
)
def test_a_misspelt_profile_has_near_names(typed: str, meant: str) -> None:
    assert meant in catalog.suggest(typed)


def test_suggestions_include_names_learned_from_hosts() -> None:
    assert catalog.suggest("i915-GVTg_V5_3", {"i915-GVTg_V5_4"})[0] == "i915-GVTg_V5_4"
    assert catalog.suggest("zzzzzz") == ()


def test_the_catalogue_loads_fast_and_without_heavy_imports() -> None:
    """The best of five fresh interpreters stays far below what YAML would take (0.25 s and up)."""
    program = (
        "import sys, time\nfrom vgpumgr import catalog\nstart = time.perf_counter()\n"
        "catalog.boards()\nprint(time.perf_counter() - start)\n"
        "assert not {'yaml', 'pydantic', 'numpy', 'lxml'} & set(sys.modules)"
    )
    took = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        took.append(float(done.stdout))
    assert min(took) < 0.05


def test_boards_are_read_once() -> None:
    catalog.boards()
    start = time.perf_counter()
    for _ in range(1000):
        catalog.board("T4")
    assert time.perf_counter() - start < 0.1
