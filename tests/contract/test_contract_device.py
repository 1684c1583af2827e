"""The device cases on simulated hosts: an NVIDIA parent, the kernel's samples, a whole GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.device_cases import CASES, Bench, Case, state
from vgpumgr.model.host import HostRecord
from vgpumgr.model.simulated import SimBoard, SimFleet, SimHost
from vgpumgr.sim.client import InProcessHosts
from vgpumgr.sim.kernel import Kernel

T4, WHOLE, DISPLAY = "0000:41:00.0", "0000:43:00.0", "0000:45:00.0"
HOST = SimHost(
    name="h1",
    boards=(
        SimBoard(board="T4"),
        SimBoard(board="H100-PCIE-80GB"),
        SimBoard(board="RTX-A6000"),
        SimBoard(board="mbochs"),
        SimBoard(board="mtty"),
    ),
)
BENCHES = {
    "T4": (T4, "nvidia-232", "nvidia-231", WHOLE),
    "mbochs": ("mbochs", "mbochs-large", "mbochs-small", DISPLAY),
    "mtty": ("mtty", "mtty-2", "mtty-1", T4),
}


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    hosts = InProcessHosts(SimFleet(name="contract", hosts=(HOST,)), identity=lambda: ("c", 1))
    host = hosts.open(HostRecord(name="h1", address="sim://h1"))
    kernel = hosts.fleet.hosts["h1"].kernel
    parent, type_id, other_type, gpu = BENCHES[request.param]
    before = state(host.probe())
    yield Bench(
        host=host,
        parent=parent,
        type_id=type_id,
        other_type=other_type,
        gpu=gpu,
        make_foreign=lambda device: _make(kernel, parent, type_id, device),
        drop_foreign=lambda device: kernel.tree.write(
            f"/sys/bus/mdev/devices/{device}/remove", "1"
        ),
    )
    assert state(host.probe()) == before, "the case left something behind"
    hosts.close()


def _make(kernel: Kernel, parent: str, type_id: str, device: str) -> None:
    types = f"/sys/class/mdev_bus/{parent}/mdev_supported_types"
    kernel.tree.write(f"{types}/{type_id}/create", device)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_simulated_host(case: Case, bench: Bench) -> None:
    case(bench)
