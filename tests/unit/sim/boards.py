"""Simulated kernels with VFs, and what the tests do to them."""

from __future__ import annotations

import errno
from collections.abc import Callable, MutableMapping

import pytest

from vgpumgr.model.host import Versions
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.host_programs import PATH
from vgpumgr.sim.machine.kernel import Kernel

FIRST = "0000:41:00.0"
DEVICES = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
OLD = Versions(kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16")
NEW = Versions(kernel="6.8.12-1-pve", libvirt="11.3.0", qemu="10.0.2", driver="580.105.06")
ONE, TWO = (f"4b20d080-1b54-4048-85b3-a6a62d165c0{number}" for number in (1, 2))


def host(*boards: str | SimBoard, versions: Versions = NEW, fabric: str = "") -> SimHost:
    made = tuple(SimBoard(board=each) if isinstance(each, str) else each for each in boards)
    return SimHost(name="h1", boards=made, versions=versions, fabric=fabric)


def boot(
    *boards: str | SimBoard,
    versions: Versions = NEW,
    fabric: str = "",
    durable: MutableMapping[str, str] | None = None,
) -> Kernel:
    kernel = Kernel(host(*boards, versions=versions, fabric=fabric), durable or Durable("h1"))
    kernel.modprobe("vfio-pci")
    return kernel


def sriov_manage(kernel: Kernel, *args: str) -> tuple[int, str]:
    return host_programs.run(kernel, [PATH, *args])


def with_vfs(*boards: str, versions: Versions = NEW) -> Kernel:
    kernel = boot(*boards, versions=versions)
    assert sriov_manage(kernel, "-e", "ALL")[0] == 0
    return kernel


def read(kernel: Kernel, address: str, name: str) -> str:
    return kernel.tree.read(f"{DEVICES}/{address}/{name}")


def write(kernel: Kernel, address: str, name: str, text: str) -> None:
    kernel.tree.write(f"{DEVICES}/{address}/{name}", text)


def virtual(kernel: Kernel, address: str = FIRST) -> list[str]:
    """The VFs by their number, as the ``virtfn`` links tell."""
    names = [name for name in kernel.tree.names(f"{DEVICES}/{address}") if "virtfn" in name]
    links = {int(name.removeprefix("virtfn")): name for name in names}
    return [
        kernel.tree.readlink(f"{DEVICES}/{address}/{links[number]}").rpartition("/")[2]
        for number in range(len(links))
    ]


def driver(kernel: Kernel, address: str) -> str | None:
    return kernel.pci.functions[address].driver


def to_vfio(kernel: Kernel, address: str) -> None:
    write(kernel, address, "driver_override", "vfio-pci\n")
    now = driver(kernel, address)
    if now:
        kernel.tree.write(f"{DRIVERS}/{now}/unbind", address)
    kernel.tree.write("/sys/bus/pci/drivers_probe", address)


def refused(number: int, act: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        act()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]
