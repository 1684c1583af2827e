"""The life cycle every framework fulfils, and the table of frameworks."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.gpu.mdev_framework import MdevFramework
from vgpumgr.gpu.passthrough_framework import PassthroughFramework, companions
from vgpumgr.gpu.pci_vf_framework import PciVfFramework
from vgpumgr.gpu.vfio_vf_framework import VfioVfFramework
from vgpumgr.model.domain import Hostdev
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.operation import Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import Allocation

__all__ = ["GpuFramework", "companions", "framework", "offers"]


class GpuFramework(Protocol):
    """How one framework turns an allocation into a device on a host and back."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """What this GPU can make through this framework, as it is partitioned now."""

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Make the device, under its claim; already made under the same claim is no error."""

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Is the device there, under our claim, in the wanted state?"""

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """Does the host keep anything under our claim, the device or the claim alone?"""

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Take the device back, presenting the claim; already gone is no error."""

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the device as it is, without touching it; HostRefused where it is otherwise."""

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """The hostdevs that go into the domain."""


_FRAMEWORKS: dict[Framework, GpuFramework] = {
    Framework.MDEV: MdevFramework(),
    Framework.VFIO_VF: VfioVfFramework(),
    Framework.PCI_VF: PciVfFramework(),
    Framework.PASSTHROUGH: PassthroughFramework(),
}


def framework(name: str) -> GpuFramework:
    """The framework of that name; ValueError for an unknown one."""
    return _FRAMEWORKS[Framework(name)]


def offers(gpu: GpuFacts) -> tuple[Offer, ...]:
    """Everything a GPU can make, through every framework."""
    return tuple(offer for each in _FRAMEWORKS.values() for offer in each.offers(gpu))
