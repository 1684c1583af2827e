"""Real nvidia-ml-py over the simulated library."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from vgpumgr.model.host import Versions
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvml import library as nvml_library

T4 = "0000:41:00.0"


def kernel(name: str, *boards: SimBoard, driver: str = "550.54.16") -> Kernel:
    host = SimHost(name=name, boards=boards, versions=Versions(driver=driver))
    return Kernel(host, Durable(name))


@pytest.fixture
def two_t4() -> Kernel:
    return kernel("h1", SimBoard(board="T4", count=2))


def started(host: Kernel) -> Any:
    library = nvml_library.nvml_module(host)
    library.nvmlInit()
    return library


def test_it_names_the_gpus_that_the_driver_holds(two_t4: Kernel) -> None:
    library = started(two_t4)
    assert library.nvmlDeviceGetCount() == 2
    handle = library.nvmlDeviceGetHandleByIndex(0)
    assert library.nvmlDeviceGetName(handle) == "Tesla T4"
    assert library.nvmlDeviceGetUUID(handle).startswith("GPU-")
    assert library.nvmlDeviceGetMemoryInfo(handle).total == 16 << 30
    assert library.nvmlDeviceGetPciInfo(handle).busId == f"0000{T4}"
    assert library.nvmlSystemGetDriverVersion() == "550.54.16"


def test_a_gpu_given_away_is_lost_to_it(two_t4: Kernel) -> None:
    library = started(two_t4)
    handle = library.nvmlDeviceGetHandleByIndex(0)
    two_t4.tree.write("/sys/bus/pci/drivers/nvidia/unbind", T4)
    assert library.nvmlDeviceGetCount() == 1
    with pytest.raises(library.NVMLError_GpuIsLost):
        library.nvmlDeviceGetName(handle)
    with pytest.raises(library.NVMLError_InvalidArgument):
        library.nvmlDeviceGetHandleByIndex(1)


def test_identities_last_over_boots_and_differ_over_the_fleet(two_t4: Kernel) -> None:
    def identities(host: Kernel) -> list[tuple[str, str]]:
        library = started(host)
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in (0, 1)]
        return [
            (library.nvmlDeviceGetUUID(each), library.nvmlDeviceGetSerial(each)) for each in handles
        ]

    again = kernel("h1", SimBoard(board="T4", count=2))
    other = kernel("h2", SimBoard(board="T4", count=2))
    assert identities(two_t4) == identities(again)
    assert len({*identities(two_t4), *identities(other)}) == 4


def test_what_it_does_not_have_is_function_not_found(two_t4: Kernel) -> None:
    library = started(two_t4)
    handle = library.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(library.NVMLError_FunctionNotFound):
        library.nvmlDeviceGetFanSpeed(handle)


def test_threads_ask_different_hosts_through_one_library() -> None:
    hosts = {
        str(count): kernel(f"h{count}", SimBoard(board="T4", count=count), driver=f"550.{count}")
        for count in (1, 2, 3)
    }
    ready = threading.Barrier(len(hosts))
    found: dict[str, list[tuple[int, str]]] = {}

    def ask(name: str) -> None:
        library = started(hosts[name])
        ready.wait()
        found[name] = [
            (library.nvmlDeviceGetCount(), library.nvmlSystemGetDriverVersion()) for _ in range(50)
        ]

    threads = [threading.Thread(target=ask, args=(name,)) for name in hosts]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {name: set(answers) for name, answers in found.items()} == {
        name: {(int(name), f"550.{name}")} for name in hosts
    }
