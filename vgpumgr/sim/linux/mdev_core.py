"""The kernel's mdev core: parents of vendors' drivers with types, ``create`` and ``remove``."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from vgpumgr.sim.boards.mdev_types import SupportedMdevType
from vgpumgr.sim.linux.file_tree import File, FileTree, Folder, Node, refusal
from vgpumgr.sim.linux.pci_bus import IommuGroups


class MdevParent(Protocol):
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
    def types(self) -> tuple[SupportedMdevType, ...]:
        """What it can make."""

    def available(self, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> int:
        """``available_instances`` of a type while ``made`` exist."""

    def make(self, uuid: str, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> None:
        """Make one; OSError where the driver refuses."""

    def unmake(self, uuid: str) -> None:
        """Take one away; OSError while a VM holds it."""

    def attributes(self, uuid: str) -> Mapping[str, File]:
        """The driver's own files of an mdev, by their path below it."""


# Errno as in Linux 6.12 drivers/vfio/mdev (behaviour §2); the vendor's part is the parent's.


BUS = "/sys/bus/mdev/devices"
CLASS = "/sys/class/mdev_bus"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MdevDevice:
    """An mdev."""

    uuid: str
    parent: MdevParent
    type: SupportedMdevType
    group: int

    @property
    def path(self) -> str:
        """Its folder, below its parent's."""
        return f"{self.parent.path}/{self.uuid}"


class MdevCore:
    """All parents and mdevs of one host."""

    def __init__(self, tree: FileTree, groups: IommuGroups) -> None:
        self._tree = tree
        self._groups = groups
        self.devices: dict[str, MdevDevice] = {}
        tree.folder(BUS)
        tree.folder(CLASS)

    def register(self, parent: MdevParent) -> None:
        """Show a parent; its types are made when somebody looks."""
        self._tree.link(f"{CLASS}/{parent.name}", parent.path)
        self._tree.lazy(f"{parent.path}/mdev_supported_types", partial(self._show_types, parent))

    def unregister(self, parent: MdevParent) -> None:
        """Take a parent away; EBUSY while it carries mdevs."""
        if self.carried(parent):
            raise refusal(errno.EBUSY)
        self._tree.drop(f"{CLASS}/{parent.name}")
        self._tree.drop(f"{parent.path}/mdev_supported_types")

    def carried(self, parent: MdevParent) -> list[MdevDevice]:
        """The mdevs of a parent."""
        return [each for each in self.devices.values() if each.parent is parent]

    def remove(self, uuid: str) -> None:
        """Remove an mdev; OSError where its parent refuses."""
        device = self.devices[uuid]
        device.parent.unmake(uuid)
        del self.devices[uuid]
        self._tree.drop(f"{_type_path(device.parent, device.type)}/devices/{uuid}")
        self._tree.drop(f"{BUS}/{uuid}")
        self._tree.drop(device.path)
        self._groups.remove(device.group)

    def _show_types(self, parent: MdevParent) -> None:
        for each in parent.types:
            nodes: dict[str, Node] = {
                **_fixed(each),
                "available_instances": File(partial(self._available, parent, each)),
                "create": File(writer=partial(self._create, parent, each)),
                "devices": Folder(),
            }
            self._tree.mount(_type_path(parent, each), Folder(nodes))

    def _available(self, parent: MdevParent, kind: SupportedMdevType) -> str:
        made = [each.type for each in self.carried(parent)]
        return f"{parent.available(kind, made)}\n"

    def _create(self, parent: MdevParent, kind: SupportedMdevType, text: str) -> None:
        uuid = text.removesuffix("\n").lower()
        if len(text) not in {36, 37} or not _UUID.fullmatch(uuid):
            raise refusal(errno.EINVAL)
        if uuid in self.devices:
            raise refusal(errno.EEXIST)
        parent.make(uuid, kind, [each.type for each in self.carried(parent)])
        device = MdevDevice(uuid, parent, kind, self._groups.add(f"{parent.path}/{uuid}"))
        self.devices[uuid] = device
        self._show(device)

    def _show(self, device: MdevDevice) -> None:
        tree, at = self._tree, device.path
        kind = _type_path(device.parent, device.type)
        tree.link(f"{at}/mdev_type", kind)
        tree.link(f"{at}/iommu_group", self._groups.path(device.group))
        tree.link(f"{at}/driver", f"/sys/bus/mdev/drivers/{device.parent.driver}")
        tree.link(f"{at}/subsystem", "/sys/bus/mdev")
        tree.file(f"{at}/remove", writer=partial(self._remove, device))
        for name, file in device.parent.attributes(device.uuid).items():
            tree.file(f"{at}/{name}", file.reader, file.writer)
        tree.folder(f"/sys/bus/mdev/drivers/{device.parent.driver}")
        tree.link(f"{BUS}/{device.uuid}", at)
        tree.link(f"{kind}/devices/{device.uuid}", at)
        self._groups.open(device.group)

    def _remove(self, device: MdevDevice, text: str) -> None:
        try:
            wanted = int(text, 0)
        except ValueError:
            raise refusal(errno.EINVAL) from None
        if not wanted:
            return
        if device.uuid not in self.devices:
            raise refusal(errno.ENODEV)
        self.remove(device.uuid)


@cache
def _fixed(kind: SupportedMdevType) -> Mapping[str, File]:
    """The files of a type that are alike on all its parents: a VF has dozens of types."""
    texts = {"name": f"{kind.name}\n", "device_api": "vfio-pci\n"}
    if kind.description is not None:
        texts["description"] = kind.description
    return {name: File(partial(str, text)) for name, text in texts.items()}


def _type_path(parent: MdevParent, kind: SupportedMdevType) -> str:
    return f"{parent.path}/mdev_supported_types/{kind.id}"
