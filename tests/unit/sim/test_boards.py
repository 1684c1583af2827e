"""Which functions the simulated boards have, and where they sit (behaviour §11, gpus.yaml)."""

from __future__ import annotations

import pytest

from tests.unit.sim.boards import DEVICES, FIRST, boot, driver, host, read
from vgpumgr import catalog
from vgpumgr.model.errors import UsageError
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.sim.boards.hardware import hardware
from vgpumgr.sim.boards.pci_board import pci_board
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel

KEYS = [
    *(each.key for each in catalog.boards()),
    *(each.key for each in catalog.sriov_boards() if each.driver),
]


@pytest.mark.parametrize("key", KEYS)
def test_every_board_of_the_catalogue_boots_on_its_driver(key: str) -> None:
    kernel = boot(key)
    board, address = pci_board(key), kernel.gpus[0].address
    assert driver(kernel, address) == board.driver
    assert read(kernel, address, "class") == f"0x{board.pci_class}\n"
    assert len(board.pci_class) == 6
    has_vfs = kernel.tree.exists(f"{DEVICES}/{address}/sriov_totalvfs")
    assert has_vfs == bool(board.sriov_total)


def test_a_board_without_host_driver_is_not_simulated() -> None:
    """sriov_gpus.yaml: no open host driver of V620 was found."""
    with pytest.raises(UsageError, match="V620") as caught:
        boot("V620")
    assert "no host driver" in caught.value.why


@pytest.mark.parametrize(
    ("key", "others"),
    [
        ("RTX8000P", ["snd_hda_intel", "xhci_hcd", "nvidia-gpu"]),
        ("RTX-A6000", ["snd_hda_intel"]),
        ("T4", []),
        ("A100-PCIE-80GB", []),
        ("L20", []),
    ],
)
def test_functions_beside_the_gpu(key: str, others: list[str]) -> None:
    """§11: Turing RTX .0-.3, display boards .0 and .1, T4/A100 and display-off boards .0 only."""
    kernel = boot(key)
    siblings = [f"0000:41:00.{number}" for number in range(1, len(others) + 1)]
    assert kernel.tree.names(DEVICES) == [FIRST, *siblings]
    assert [driver(kernel, each) for each in siblings] == others
    assert {kernel.group_of(each) for each in siblings} <= {kernel.group_of(FIRST)}


def test_turing_rtx_has_usb_c() -> None:
    """§11: .1 audio 0403, .2 xHCI 0c03, .3 UCSI 0c80."""
    kernel = boot("RTX8000P")
    classes = [read(kernel, f"0000:41:00.{number}", "class") for number in (1, 2, 3)]
    assert [each[:6] for each in classes] == ["0x0403", "0x0c03", "0x0c80"]


@pytest.mark.parametrize(("key", "together"), [("A16", 4), ("M10", 4), ("M60", 2)])
def test_several_gpus_of_one_board_sit_behind_its_switch(key: str, together: int) -> None:
    """gpus.yaml: each an own PF behind one on-board switch."""
    gpus = hardware(host(SimBoard(board=key, count=2 * together), "T4")).gpus
    paths = [gpu.path().split("/") for gpu in gpus]
    switches = [path[5] for path in paths[:-1]]
    assert len(set(switches)) == 2
    assert switches.count(switches[0]) == together
    ports = {tuple(path[:7]) for path in paths[:-1]}
    assert len(ports) == 2 * together
    assert len({gpu.address for gpu in gpus}) == len(gpus)
    assert [len(path) for path in paths] == [8] * 2 * together + [6]


def test_groups_are_one_per_gpu() -> None:
    kernel = boot(SimBoard(board="A16", count=4))
    assert len({kernel.group_of(gpu.address) for gpu in kernel.gpus}) == 4


def test_too_many_gpus_for_the_buses() -> None:
    with pytest.raises(UsageError, match="96 GPUs"):
        hardware(host(SimBoard(board="T4", count=96)))


def test_the_configuration_space_names_the_device() -> None:
    kernel = boot("L40S")
    config = kernel.pci.functions[FIRST].config()
    assert (config[0:4], config[9:12]) == (b"\xde\x10\xb9\x26", b"\x00\x02\x03")
    assert len(read(kernel, FIRST, "config")) == len(config)


def test_gh200_has_no_bus_reset() -> None:
    """§11: device ids 0x2340 to 0x237f have bus reset blocked by a kernel quirk."""
    assert read(boot("GH200-96GB"), FIRST, "reset_method") == "flr\n"
    assert read(boot("T4"), FIRST, "reset_method") == "flr bus\n"


def test_every_gpu_of_a_fleet_has_its_own_identity() -> None:
    boards = (SimBoard(board="T4", count=2),)
    kernels = [Kernel(SimHost(name=name, boards=boards), Durable(name)) for name in ("h1", "h2")]
    assert len({gpu.uuid for kernel in kernels for gpu in kernel.nvidia.values()}) == 4
