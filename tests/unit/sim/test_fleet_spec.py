"""``kind: Fleet``: boards of all vendors, gim's option, NVSwitch boards."""

from __future__ import annotations

import pytest

from vgpumgr.model.sim_fleet import SimBoard
from vgpumgr.sim.boards.hardware import hardware
from vgpumgr.spec import SpecError, load

FLEET = "apiVersion: vgpumgr/v1\nkind: Fleet\nname: f\nhosts:\n  - name: h\n"


def problem(lines: str) -> tuple[str, str]:
    """Key path and message of the one thing that is wrong."""
    with pytest.raises(SpecError) as caught:
        load(FLEET + lines, "f.yaml")
    (found,) = caught.value.problems
    return found.path, found.message


def test_boards_of_all_vendors_and_a_fabric() -> None:
    lines = (
        "    gpus:\n      - {board: H200-SXM5-141GB, count: 8}\n"
        "      - {board: MI300X, vfs: 8}\n      - {board: FLEX-170}\n"
        "    fabric: HGX-H100-8\n"
    )
    (fleet,) = load(FLEET + lines, "f.yaml").fleets
    (host,) = fleet.hosts
    assert host.boards[1:] == (SimBoard(board="MI300X", vfs=8), SimBoard(board="FLEX-170"))
    assert host.fabric == "HGX-H100-8"
    assert len(hardware(host).gpus) == 10


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        ("    gpus: [{board: MI300Y}]\n", "gpus[0].board", "did you mean MI300X?"),
        ("    gpus: [{board: V620}]\n", "gpus[0].board", "no host driver of it is known"),
        ("    gpus: [{board: A40, vfs: 8}]\n", "gpus[0].vfs", "A40 has no such option"),
        ("    gpus: [{board: FLEX-170, vfs: 8}]\n", "gpus[0].vfs", "FLEX-170 has no such option"),
        ("    gpus: [{board: MI300X, vfs: 4}]\n", "gpus[0].vfs", "MI300X can have 1 or 8 VFs"),
        ("    gpus: [{board: V710, vfs: 32}]\n", "gpus[0].vfs", "must be at most 31, not 32"),
        ("    gpus: [{board: T4, count: 17}]\n", "gpus[0].count", "must be at most 16, not 17"),
        (
            "    gpus: [{board: H100-SXM5-80GB, count: 8}]\n    fabric: HGX-H100\n",
            "fabric",
            "'HGX-H100' is not a NVSwitch board: write HGX-A100-16, HGX-A100-8, HGX-H100-8 or "
            "HGX-B200-8; did you mean HGX-H100-8?",
        ),
        (
            "    gpus: [{board: H100-SXM5-80GB, count: 4}]\n    fabric: HGX-H100-8\n",
            "fabric",
            "HGX-H100-8 carries 8 GPUs of its own model, not 4",
        ),
        (
            "    gpus: [{board: H100-PCIE-80GB, count: 8}]\n    fabric: HGX-H100-8\n",
            "fabric",
            "not 0",
        ),
    ],
)
def test_what_cannot_be_is_told_at_its_place(lines: str, path: str, words: str) -> None:
    where, message = problem(lines)
    assert where == f"hosts[0].{path}"
    assert words in message
