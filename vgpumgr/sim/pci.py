"""The PCI bus: functions, drivers, and what the kernel answers to bind and unbind.

Errno as in Linux 6.1 drivers/base/bus.c and drivers/pci; see the driver's own part in drivers.py.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from vgpumgr.sim.iommu import IommuGroups
from vgpumgr.sim.tree import Tree, refusal

BUS = "/sys/bus/pci"

_PAGE = 4096


@dataclass(slots=True, kw_only=True)
class Function:
    """One PCI function. ``group`` None: the IOMMU is off."""

    address: str
    path: str
    pci_class: str
    vendor: str
    device: str
    subsystem: str
    numa_node: int
    reset_methods: str
    sriov_total: int = 0
    group: int | None = None
    driver: str | None = None
    override: str = ""


class Driver(Protocol):
    """A PCI driver."""

    @property
    def name(self) -> str:
        """Its name under ``/sys/bus/pci/drivers``."""

    def takes(self, function: Function) -> bool:
        """Is the function of a kind it knows?"""

    def attach(self, function: Function) -> None:
        """Probe: OSError when it fails."""

    def detach(self, function: Function) -> None:
        """Remove: OSError where a real driver would refuse or block."""


class PciBus:
    """All functions and drivers of one host."""

    def __init__(self, tree: Tree, groups: IommuGroups) -> None:
        self._tree = tree
        self._groups = groups
        self.drivers: dict[str, Driver] = {}
        self.functions: dict[str, Function] = {}
        tree.folder(f"{BUS}/devices")
        tree.file(f"{BUS}/drivers_probe", writer=self._drivers_probe)

    def add_driver(self, driver: Driver) -> None:
        """Load a driver; functions that are there are not probed."""
        self.drivers[driver.name] = driver
        at = f"{BUS}/drivers/{driver.name}"
        self._tree.file(f"{at}/bind", writer=partial(self._bind, driver))
        self._tree.file(f"{at}/unbind", writer=partial(self._unbind, driver))

    def add(self, function: Function) -> None:
        """Show a function and let the drivers probe it."""
        self.functions[function.address] = function
        self._tree.link(f"{BUS}/devices/{function.address}", function.path)
        self._show(function)
        self._probe(function)

    def _show(self, function: Function) -> None:
        tree, at = self._tree, function.path
        vendor, device = function.subsystem.split(":")
        for name, text in {
            "class": f"0x{function.pci_class}",
            "vendor": f"0x{function.vendor}",
            "device": f"0x{function.device}",
            "subsystem_vendor": f"0x{vendor}",
            "subsystem_device": f"0x{device}",
            "numa_node": str(function.numa_node),
            "reset_method": function.reset_methods,
        }.items():
            tree.text(f"{at}/{name}", f"{text}\n")
        tree.link(f"{at}/subsystem", BUS)
        tree.file(
            f"{at}/driver_override",
            lambda: f"{function.override or '(null)'}\n",
            partial(self._override, function),
        )
        if function.pci_class.startswith("0300"):
            tree.text(f"{at}/boot_vga", "0\n")
        if function.group is not None:
            tree.link(f"{at}/iommu_group", self._groups.path(function.group))
        if function.sriov_total:
            tree.text(f"{at}/sriov_totalvfs", f"{function.sriov_total}\n")
            tree.file(f"{at}/sriov_numvfs", lambda: "0\n", _refuse_vfs)

    @staticmethod
    def _override(function: Function, text: str) -> None:
        if len(text) >= _PAGE - 1:
            raise refusal(errno.EINVAL)
        function.override = text.partition("\n")[0]

    def _drivers_probe(self, text: str) -> None:
        function = self.functions.get(text.strip())
        if function is None:
            raise refusal(errno.ENODEV)
        self._probe(function)

    def _probe(self, function: Function) -> None:
        """Offer an unbound function to the drivers; a driver's failed probe is not told."""
        if function.driver is not None:
            return
        for driver in self.drivers.values():
            if _matches(driver, function):
                try:
                    self._attach(driver, function)
                except OSError:
                    continue
                return

    def _bind(self, driver: Driver, text: str) -> None:
        function = self.functions.get(text.strip())
        if function is None or not _matches(driver, function):
            raise refusal(errno.ENODEV)
        if function.driver is not None:
            raise refusal(errno.EBUSY)
        self._attach(driver, function)

    def _unbind(self, driver: Driver, text: str) -> None:
        function = self.functions.get(text.strip())
        if function is None or function.driver != driver.name:
            raise refusal(errno.ENODEV)
        driver.detach(function)
        function.driver = None
        self._tree.drop(f"{function.path}/driver")
        self._tree.drop(f"{BUS}/drivers/{driver.name}/{function.address}")

    def _attach(self, driver: Driver, function: Function) -> None:
        driver.attach(function)
        function.driver = driver.name
        self._tree.link(f"{function.path}/driver", f"{BUS}/drivers/{driver.name}")
        self._tree.link(f"{BUS}/drivers/{driver.name}/{function.address}", function.path)


def _matches(driver: Driver, function: Function) -> bool:
    if function.override:
        return function.override == driver.name
    return driver.takes(function)


def _refuse_vfs(_text: str) -> None:
    """A driver without the callback answers ENOENT; NVIDIA's takes no raw write either."""
    raise refusal(errno.ENOENT)
