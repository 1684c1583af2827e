"""IOMMU groups: one per isolated set of PCI functions, one more for every mdev."""

from __future__ import annotations

from functools import partial
from posixpath import basename

from vgpumgr.sim.linux.tree import Tree

GROUPS = "/sys/kernel/iommu_groups"


class IommuGroups:
    """Numbers groups as they come, and shows the ones that VFIO may open under /dev/vfio."""

    def __init__(self, tree: Tree) -> None:
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
