"""The kernel's mdev core: parents with types, ``create`` and ``remove``.

Errno as in Linux 6.12 drivers/vfio/mdev (behaviour §2); the vendor's part is the parent's.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from vgpumgr.sim.boards.mdev_type import MdevType
from vgpumgr.sim.linux.iommu import IommuGroups
from vgpumgr.sim.linux.mdev_parent import Parent
from vgpumgr.sim.linux.nodes import File, Folder, Node
from vgpumgr.sim.linux.tree import Tree, refusal

BUS = "/sys/bus/mdev/devices"
CLASS = "/sys/class/mdev_bus"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Device:
    """An mdev."""

    uuid: str
    parent: Parent
    type: MdevType
    group: int

    @property
    def path(self) -> str:
        """Its folder, below its parent's."""
        return f"{self.parent.path}/{self.uuid}"


class MdevCore:
    """All parents and mdevs of one host."""

    def __init__(self, tree: Tree, groups: IommuGroups) -> None:
        self._tree = tree
        self._groups = groups
        self.devices: dict[str, Device] = {}
        tree.folder(BUS)
        tree.folder(CLASS)

    def register(self, parent: Parent) -> None:
        """Show a parent; its types are made when somebody looks."""
        self._tree.link(f"{CLASS}/{parent.name}", parent.path)
        self._tree.lazy(f"{parent.path}/mdev_supported_types", partial(self._show_types, parent))

    def unregister(self, parent: Parent) -> None:
        """Take a parent away; EBUSY while it carries mdevs."""
        if self.carried(parent):
            raise refusal(errno.EBUSY)
        self._tree.drop(f"{CLASS}/{parent.name}")
        self._tree.drop(f"{parent.path}/mdev_supported_types")

    def carried(self, parent: Parent) -> list[Device]:
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

    def _show_types(self, parent: Parent) -> None:
        for each in parent.types:
            nodes: dict[str, Node] = {
                **_fixed(each),
                "available_instances": File(partial(self._available, parent, each)),
                "create": File(writer=partial(self._create, parent, each)),
                "devices": Folder(),
            }
            self._tree.mount(_type_path(parent, each), Folder(nodes))

    def _available(self, parent: Parent, kind: MdevType) -> str:
        made = [each.type for each in self.carried(parent)]
        return f"{parent.available(kind, made)}\n"

    def _create(self, parent: Parent, kind: MdevType, text: str) -> None:
        uuid = text.removesuffix("\n").lower()
        if len(text) not in {36, 37} or not _UUID.fullmatch(uuid):
            raise refusal(errno.EINVAL)
        if uuid in self.devices:
            raise refusal(errno.EEXIST)
        parent.make(uuid, kind, [each.type for each in self.carried(parent)])
        device = Device(uuid, parent, kind, self._groups.add(f"{parent.path}/{uuid}"))
        self.devices[uuid] = device
        self._show(device)

    def _show(self, device: Device) -> None:
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

    def _remove(self, device: Device, text: str) -> None:
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
def _fixed(kind: MdevType) -> Mapping[str, File]:
    """The files of a type that are alike on all its parents: a VF has dozens of types."""
    texts = {"name": f"{kind.name}\n", "device_api": "vfio-pci\n"}
    if kind.description is not None:
        texts["description"] = kind.description
    return {name: File(partial(str, text)) for name, text in texts.items()}


def _type_path(parent: Parent, kind: MdevType) -> str:
    return f"{parent.path}/mdev_supported_types/{kind.id}"
