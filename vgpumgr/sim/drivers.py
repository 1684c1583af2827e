"""The PCI drivers of a simulated host."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import ClassVar

from vgpumgr.sim.board import PciBoard
from vgpumgr.sim.iommu import IommuGroups
from vgpumgr.sim.mdev import MdevCore
from vgpumgr.sim.parents import NvidiaPf
from vgpumgr.sim.pci import Function
from vgpumgr.sim.tree import refusal


class Nvidia:
    """NVIDIA's vGPU host driver: an mdev parent on every board that makes vGPUs on the PF.

    Unbinding a GPU that carries mdevs would block in a real kernel; here it is EBUSY.
    """

    name: ClassVar[str] = "nvidia"

    def __init__(self, mdevs: MdevCore, boards: Mapping[str, PciBoard]) -> None:
        self._mdevs = mdevs
        self._boards = boards
        self._parents: dict[str, NvidiaPf] = {}

    def takes(self, function: Function) -> bool:
        """NVIDIA's display controllers."""
        return function.vendor == "10de" and function.pci_class.startswith("03")

    def attach(self, function: Function) -> None:
        """Bind, and register as an mdev parent."""
        types = self._boards[function.address].types
        if types:
            parent = NvidiaPf(function.address, function.path, types)
            self._mdevs.register(parent)
            self._parents[function.address] = parent

    def detach(self, function: Function) -> None:
        """EBUSY while it carries mdevs."""
        parent = self._parents.get(function.address)
        if parent is not None:
            self._mdevs.unregister(parent)
            del self._parents[function.address]


class VfioPci:
    """vfio-pci: only by driver_override, only with an IOMMU.

    Unbinding a function that a VM holds would block in a real kernel; here it is EBUSY.
    """

    name: ClassVar[str] = "vfio-pci"

    def __init__(self, groups: IommuGroups, in_use: Callable[[str], bool]) -> None:
        self._groups = groups
        self._in_use = in_use
        self._bound: set[str] = set()

    def takes(self, function: Function) -> bool:
        """Nothing by itself."""
        return False

    def attach(self, function: Function) -> None:
        """EINVAL without an IOMMU group."""
        if function.group is None:
            raise refusal(errno.EINVAL)
        self._bound.add(function.address)
        self._groups.open(function.group)

    def detach(self, function: Function) -> None:
        """EBUSY while a VM holds it."""
        if self._in_use(function.address):
            raise refusal(errno.EBUSY)
        self._bound.discard(function.address)
        if function.group is not None:
            mates = self._groups.members(function.group)
            if not self._bound.intersection(mates):
                self._groups.shut(function.group)


class HdAudio:
    """snd_hda_intel, on the audio function of boards with display outputs."""

    name: ClassVar[str] = "snd_hda_intel"

    def takes(self, function: Function) -> bool:
        """HD audio controllers."""
        return function.pci_class.startswith("0403")

    def attach(self, function: Function) -> None:
        """Bind."""

    def detach(self, function: Function) -> None:
        """Let go."""
