"""Names and memory that drivers tell, beside the boards of the catalogue."""

from __future__ import annotations

import pytest

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts


def gpu(model: str, name: str, memory_mib: int | None) -> GpuFacts:
    return GpuFacts(device="0000:41:00.0", path="", model=model, name=name, memory_mib=memory_mib)


@pytest.mark.parametrize("board", catalog.boards(), ids=lambda board: board.key)
def test_every_board_may_be_called_by_its_name_and_lose_a_part_of_its_memory(
    board: catalog.Board,
) -> None:
    nominal = board.memory_gib * 1024
    for name in (board.name, board.name.removeprefix("NVIDIA ").removeprefix("Tesla "), ""):
        for memory in (nominal, nominal * 15 // 16, nominal * 92 // 100, None):
            assert catalog.contradiction(gpu(board.key, name, memory)) == ""


# Names and memory as such boards are commonly listed with; none was read from a board of ours.
@pytest.mark.parametrize(
    ("model", "name", "memory_mib"),
    [
        ("T4", "Tesla T4", 15109),
        ("T4", "NVIDIA T4", 15360),
        ("T4", "GRID T4-16Q", 15360),
        ("M60", "Tesla M60", 7618),
        ("M10", "Tesla M10", 8127),
        ("P40", "Tesla P40", 22919),
        ("V100-PCIE-16GB", "Tesla V100-PCIE-16GB", 16160),
        ("V100S-PCIE-32GB", "Tesla V100S-PCIE-32GB", 32510),
        ("RTX6000P", "Quadro RTX 6000", 22698),
        ("RTX8000P", "Quadro RTX 8000", 45556),
        ("A10", "NVIDIA A10", 23028),
        ("A16", "NVIDIA A16", 15356),
        ("A40", "NVIDIA A40", 46068),
        ("A40", "NVIDIA A40-48Q", 49140),
        ("A100-PCIE-40GB", "A100-PCIE-40GB", 40536),
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 81251),
        ("L4", "NVIDIA L4", 23034),
        ("L40S", "NVIDIA L40S", 46068),
        ("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 81559),
        ("H100-PCIE-80GB", "NVIDIA H100 PCIe", 81559),
        ("H100-NVL-94GB", "NVIDIA H100 NVL", 95830),
        ("H200-SXM5-141GB", "NVIDIA H200", 143771),
        ("GH200-96GB", "NVIDIA GH200 480GB", 97871),
        ("B200", "NVIDIA B200", 183359),
        ("GB200", "NVIDIA GB200", 189471),
        ("RTX-PRO-6000-BSE", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
        ("H100-SXM5-80GB", "Graphics Device", 81559),
        ("A100-SXM4-40GB", "NVIDIA PG506-232", 40960),
    ],
)
def test_what_drivers_are_known_to_say_is_no_contradiction(
    model: str, name: str, memory_mib: int
) -> None:
    assert catalog.contradiction(gpu(model, name, memory_mib)) == ""


@pytest.mark.parametrize(
    ("model", "name", "memory_mib", "says"),
    [
        ("H100-SXM5-80GB", "NVIDIA GB200", 81559, "calls it NVIDIA GB200"),
        ("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 196608, "196608 MiB"),
        ("H100-SXM5-80GB", "", 196608, "196608 MiB"),
        ("T4", "Tesla V100-PCIE-16GB", 16160, "calls it Tesla V100"),
        ("A40", "NVIDIA A40", 24576, "24576 MiB"),
        ("V100-PCIE-16GB", "Tesla V100-PCIE-32GB", 32510, "32510 MiB"),
    ],
)
def test_another_model_or_size_is_one(model: str, name: str, memory_mib: int, says: str) -> None:
    found = catalog.contradiction(gpu(model, name, memory_mib))
    assert says in found
    assert "its PCI id is that of" in found


def test_a_gpu_outside_the_catalogue_contradicts_nothing() -> None:
    assert catalog.contradiction(gpu("10de:ffff", "NVIDIA GB200", 5)) == ""
