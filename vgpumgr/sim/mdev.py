"""The kernel's mdev core: parents with types, ``create`` and ``remove``.

Errno as in Linux 6.1 drivers/vfio/mdev; the vendor's part of a refusal is the parent's.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from vgpumgr.sim.board import VgpuType
from vgpumgr.sim.iommu import IommuGroups
from vgpumgr.sim.tree import Tree, refusal

BUS = "/sys/bus/mdev/devices"
CLASS = "/sys/class/mdev_bus"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Parent(Protocol):
    """A parent device and its driver's rules."""

    @property
    def name(self) -> str:
        """Its name under ``/sys/class/mdev_bus``."""

    @property
    def path(self) -> str:
        """Its folder in ``/sys/devices``."""

    @property
    def driver(self) -> str:
        """The driver that its mdevs are bound to."""

    @property
    def types(self) -> tuple[VgpuType, ...]:
        """What it can make."""

    def available(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """``available_instances`` of a type while ``made`` exist."""

    def refuses(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """The errno of a refused creation, or 0."""

    @property
    def busy_errno(self) -> int:
        """The errno of removing an mdev that a VM holds."""


@dataclass(frozen=True, slots=True)
class Device:
    """An mdev."""

    uuid: str
    parent: Parent
    type: VgpuType
    group: int


class MdevCore:
    """All parents and mdevs of one host. ``in_use`` tells whether a VM holds a UUID."""

    def __init__(self, tree: Tree, groups: IommuGroups, in_use: Callable[[str], bool]) -> None:
        self._tree = tree
        self._groups = groups
        self._in_use = in_use
        self.devices: dict[str, Device] = {}
        tree.folder(BUS)
        tree.folder(CLASS)

    def register(self, parent: Parent) -> None:
        """Show a parent and its types."""
        self._tree.link(f"{CLASS}/{parent.name}", parent.path)
        for each in parent.types:
            self._show_type(parent, each)

    def unregister(self, parent: Parent) -> None:
        """Take a parent away; EBUSY while it carries mdevs."""
        if self.made(parent):
            raise refusal(errno.EBUSY)
        self._tree.drop(f"{CLASS}/{parent.name}")
        self._tree.drop(f"{parent.path}/mdev_supported_types")

    def made(self, parent: Parent) -> list[VgpuType]:
        """The types of the mdevs a parent carries."""
        return [each.type for each in self.devices.values() if each.parent is parent]

    def _show_type(self, parent: Parent, kind: VgpuType) -> None:
        at = _type_path(parent, kind)
        tree = self._tree
        tree.text(f"{at}/name", f"{kind.name}\n")
        tree.text(f"{at}/device_api", "vfio-pci\n")
        if kind.description is not None:
            tree.text(f"{at}/description", kind.description)
        tree.file(
            f"{at}/available_instances", lambda: f"{parent.available(kind, self.made(parent))}\n"
        )
        tree.file(f"{at}/create", writer=partial(self._create, parent, kind))
        tree.folder(f"{at}/devices")

    def _create(self, parent: Parent, kind: VgpuType, text: str) -> None:
        uuid = text.removesuffix("\n").lower()
        if len(text) not in {36, 37} or not _UUID.fullmatch(uuid):
            raise refusal(errno.EINVAL)
        if uuid in self.devices:
            raise refusal(errno.EEXIST)
        number = parent.refuses(kind, self.made(parent))
        if number:
            raise refusal(number)
        device = Device(uuid, parent, kind, self._groups.add(f"{parent.path}/{uuid}"))
        self.devices[uuid] = device
        self._show(device)

    def _show(self, device: Device) -> None:
        tree, at = self._tree, f"{device.parent.path}/{device.uuid}"
        kind = _type_path(device.parent, device.type)
        tree.link(f"{at}/mdev_type", kind)
        tree.link(f"{at}/iommu_group", self._groups.path(device.group))
        tree.link(f"{at}/driver", f"/sys/bus/mdev/drivers/{device.parent.driver}")
        tree.link(f"{at}/subsystem", "/sys/bus/mdev")
        tree.file(f"{at}/remove", writer=partial(self._remove, device))
        tree.folder(f"/sys/bus/mdev/drivers/{device.parent.driver}")
        tree.link(f"{BUS}/{device.uuid}", at)
        tree.link(f"{kind}/devices/{device.uuid}", at)
        self._groups.open(device.group)

    def _remove(self, device: Device, text: str) -> None:
        try:
            wanted = int(text, 0)
        except ValueError:
            raise refusal(errno.EINVAL) from None
        if not wanted:
            return
        if device.uuid not in self.devices:
            raise refusal(errno.ENODEV)
        if self._in_use(device.uuid):
            raise refusal(device.parent.busy_errno)
        del self.devices[device.uuid]
        self._tree.drop(f"{_type_path(device.parent, device.type)}/devices/{device.uuid}")
        self._tree.drop(f"{BUS}/{device.uuid}")
        self._tree.drop(f"{device.parent.path}/{device.uuid}")
        self._groups.remove(device.group)


def _type_path(parent: Parent, kind: VgpuType) -> str:
    return f"{parent.path}/mdev_supported_types/{kind.id}"
