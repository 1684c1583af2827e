"""Rows that ``nvidia-smi mig -lgip`` printed on real hosts, against the catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vgpumgr import catalog

CASES: list[dict[str, Any]] = json.loads(Path("tests/cases/nvidia-smi/lgip.json").read_text())
# Name, id, most instances, GiB; the fifth number of a row is its SMs, which we do not use.
ROWS = [(case["board"], *row[:4]) for case in CASES for row in case["rows"]]
# Named anew by later drivers: the id is what stays.
RENAMED = {("GB200", "1g.24gb"), ("GB200", "1g.24gb+me")}


@pytest.mark.parametrize(("key", "name", "number", "most", "memory_gib"), ROWS)
def test_a_real_host_lists_the_profile_as_the_catalogue_has_it(
    key: str, name: str, number: int, most: int, memory_gib: float
) -> None:
    board = catalog.board(key)
    assert board is not None
    mig = catalog.mig(board)
    assert mig is not None
    profile = next(each for each in mig.profiles if each.id == number)
    assert profile.name == name or (key, name) in RENAMED
    assert profile.max_instances == most
    assert profile.media == name.endswith("+me")
    assert profile.gpu_slices == int(name.partition("g")[0])
    if profile.memory_mib is not None:
        # Drivers differ by up to a quarter GiB in what they print for one board.
        assert profile.memory_mib / 1024 == pytest.approx(memory_gib, abs=0.26)
