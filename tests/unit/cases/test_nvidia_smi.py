"""What ``nvidia-smi`` prints: profiles against the catalogue, instances as a layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.spec import foreign

CASES: list[dict[str, Any]] = json.loads(Path("tests/cases/nvidia-smi/lgip.json").read_text())
# Name, id, most instances, GiB; the fifth number of a row is its SMs, which we do not use.
ROWS = [(case["board"], *row[:4]) for case in CASES for row in case["rows"]]


@pytest.mark.parametrize(("key", "name", "number", "most", "memory_gib"), ROWS)
def test_a_real_host_lists_the_profile_as_the_catalogue_has_it(
    key: str, name: str, number: int, most: int, memory_gib: float
) -> None:
    board = catalog.board(key)
    assert board is not None
    mig = catalog.mig(board)
    assert mig is not None
    profile = next(each for each in mig.profiles if each.id == number)
    assert name in (profile.name, *profile.earlier)
    assert profile.max_instances == most
    assert profile.media == name.endswith("+me")
    assert profile.gpu_slices == int(name.partition("g")[0])
    if profile.memory_mib is not None:
        # Drivers differ by up to a quarter GiB in what they print for one board.
        assert profile.memory_mib / 1024 == pytest.approx(memory_gib, abs=0.26)


LISTING = Path("tests/cases/nvidia-smi/lgi.txt").read_text()


def gpus(count: int) -> list[GpuFacts]:
    """As a probe sees them, in no order."""
    devices = [f"0000:{0x41 + number:02x}:00.0" for number in reversed(range(count))]
    return [
        GpuFacts(device=device, path="", model="A100-PCIE-80GB", vendor_device="10de:20b5")
        for device in devices
    ]


def test_instances_become_a_layout_where_they_lie() -> None:
    found = foreign.read(LISTING, "lgi.txt", gpus=gpus(2))
    assert found.left_out == ()
    assert found.layout is not None
    first, second = found.layout.rules
    assert (first.devices, second.devices) == (("0000:41:00.0",), ("0000:42:00.0",))
    assert [goal.start for goal in first.layout.instances or ()] == [6, 4, 5, 0, 1, 2, 3]
    assert [(goal.profile, goal.start) for goal in second.layout.instances or ()] == [
        ("3g.40gb", 4),
        ("1g.10gb", 0),
        ("2g.20gb", 2),
        ("1g.10gb", 1),
    ]
    assert first.layout.mig is second.layout.mig is True


def test_numbers_that_mean_no_gpu_are_told() -> None:
    assert "--host" in foreign.read(LISTING, "lgi.txt").left_out[0]
    assert foreign.read(LISTING, "lgi.txt").layout is None
    short = foreign.read(LISTING.encode(), "lgi.txt", gpus=gpus(1))
    assert short.layout is not None
    assert short.left_out == ("GPU 1: the host has 1 NVIDIA GPUs",)


def test_an_empty_table_is_no_layout() -> None:
    found = foreign.read("| GPU instances:      |\n", "lgi.txt", gpus=gpus(1))
    assert (found.layout, found.left_out) == (None, ("the table lists no GPU instance",))
