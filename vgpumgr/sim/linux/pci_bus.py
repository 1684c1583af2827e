"""The PCI bus and its IOMMU groups: functions, drivers, and the answers to bind and unbind."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from posixpath import basename
from typing import ClassVar

from vgpumgr.sim.linux.file_tree import FileTree, refusal
from vgpumgr.sim.linux.pci_function import BUS, Function, show

GROUPS = "/sys/kernel/iommu_groups"


class IommuGroups:
    """Numbers groups as they come, and shows the ones that VFIO may open under /dev/vfio."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._members: dict[int, list[str]] = {}
        self._next = 0
        tree.folder(GROUPS)
        tree.text("/dev/vfio/vfio", "")

    def add(self, *paths: str) -> int:
        """A new group of the devices at ``paths``; its number."""
        number, self._next = self._next, self._next + 1
        self._members[number] = [basename(path) for path in paths]
        self._tree.lazy(self.path(number), partial(self._show, number, paths))
        return number

    def _show(self, number: int, paths: tuple[str, ...]) -> None:
        self._tree.text(f"{self.path(number)}/type", "DMA-FQ\n")
        for path in paths:
            self._tree.link(f"{self.path(number)}/devices/{basename(path)}", path)

    def remove(self, number: int) -> None:
        """Forget a group."""
        del self._members[number]
        self._tree.drop(self.path(number))
        self.shut(number)

    def members(self, number: int) -> list[str]:
        """The names of a group's devices; an unknown number has none."""
        return list(self._members.get(number, ()))

    def open(self, number: int) -> None:
        """A VFIO driver has a device of the group: /dev/vfio/<number> appears."""
        self._tree.text(f"/dev/vfio/{number}", "")

    def shut(self, number: int) -> None:
        """No VFIO driver has a device of the group any more."""
        self._tree.drop(f"/dev/vfio/{number}")

    @staticmethod
    def path(number: int) -> str:
        """The group's folder."""
        return f"{GROUPS}/{number}"


# Errno as in Linux 6.12 drivers/base/bus.c and drivers/pci; see the driver's own part in its file.


class Driver:
    """A PCI driver. ``sets_vfs``: it has the callback behind ``sriov_numvfs``."""

    name: ClassVar[str]
    sets_vfs: ClassVar[bool] = False

    def takes(self, function: Function) -> bool:
        """Is the function of a kind it knows?"""
        raise NotImplementedError

    def attach(self, function: Function) -> None:
        """Probe: OSError when it fails."""

    def detach(self, function: Function) -> None:
        """Remove: OSError where a real driver would refuse or block."""


class PciBus:
    """All functions and drivers of one host."""

    def __init__(self, tree: FileTree, groups: IommuGroups) -> None:
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
        """Show a function; its files are made when somebody looks."""
        self.functions[function.address] = function
        self._tree.link(f"{BUS}/devices/{function.address}", function.path)
        self._tree.lazy(function.path, partial(show, self._tree, function, self._groups.path))

    def remove(self, functions: Iterable[Function]) -> None:
        """Take functions off the bus, their drivers first; OSError as ``unbind``."""
        for function in functions:
            self.unbind(function)
            del self.functions[function.address]
            self._tree.drop(f"{BUS}/devices/{function.address}")
            self._tree.drop(function.path)

    def probe(self, function: Function) -> None:
        """Offer an unbound function to the drivers; a driver's failed probe is not told."""
        if function.driver is not None:
            return
        for driver in self.drivers.values():
            if _matches(driver, function):
                with suppress(OSError):
                    self._attach(driver, function)
                    return

    def unbind(self, function: Function) -> None:
        """Take a function from its driver, if it has one; OSError where that refuses."""
        if function.driver is None:
            return
        self.drivers[function.driver].detach(function)
        self._tree.drop(f"{function.path}/driver")
        self._tree.drop(f"{BUS}/drivers/{function.driver}/{function.address}")
        function.driver = None

    def _drivers_probe(self, text: str) -> None:
        function = self.functions.get(text.strip())
        if function is None:
            raise refusal(errno.ENODEV)
        self.probe(function)

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
        self.unbind(function)

    def _attach(self, driver: Driver, function: Function) -> None:
        driver.attach(function)
        function.driver = driver.name
        self._tree.link(f"{function.path}/driver", f"{BUS}/drivers/{driver.name}")
        self._tree.link(f"{BUS}/drivers/{driver.name}/{function.address}", function.path)


def _matches(driver: Driver, function: Function) -> bool:
    if function.override:
        return function.override == driver.name
    return driver.takes(function)
