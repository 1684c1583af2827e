"""The drivers of boards that the catalogue does not hold: igb, igbvf, and the lab's VF driver."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from vgpumgr.sim.boards.unlisted import VF_DRIVER
from vgpumgr.sim.drivers.vgpu_files import Carrier, Users, vf_files
from vgpumgr.sim.linux.function import Function
from vgpumgr.sim.linux.iommu import IommuGroups
from vgpumgr.sim.linux.pci import Driver
from vgpumgr.sim.linux.sriov import Sriov
from vgpumgr.sim.linux.tree import Tree, refusal
from vgpumgr.sim.nvidia.gpu import NvidiaGpu


class Igb(Driver):
    """The PF's driver: VFs by ``sriov_numvfs``. They go when it leaves."""

    name = "igb"
    sets_vfs = True

    def __init__(self, sriov: Mapping[str, Sriov]) -> None:
        self._sriov = sriov

    def takes(self, function: Function) -> bool:
        """By id."""
        return (function.vendor, function.device) == ("8086", "10c9")

    def detach(self, function: Function) -> None:
        """EBUSY while a guest has a VF."""
        self._sriov[function.address].disable()


class Igbvf(Driver):
    """The host's driver of its VFs; it never has those meant for guests."""

    name = "igbvf"

    def takes(self, function: Function) -> bool:
        """By id."""
        return (function.vendor, function.device) == ("8086", "10ca")


class LabVf(Driver):
    """VFs that carry vGPUs: the files of NVIDIA's framework, on another vendor's driver.

    ``gpus`` are by PF. A vGPU goes with its VF.
    """

    name = VF_DRIVER

    def __init__(
        self, tree: Tree, groups: IommuGroups, gpus: Mapping[str, NvidiaGpu], users: Users
    ) -> None:
        self._tree = tree
        self._groups = groups
        self._gpus = gpus
        self._users = users

    def takes(self, function: Function) -> bool:
        """By driver_override alone."""
        return False

    def attach(self, function: Function) -> None:
        """Show the files; ready for VFIO."""
        if function.group is None:
            raise refusal(errno.EINVAL)
        gpu = self._gpus[function.physfn]
        for name, file in vf_files(Carrier(gpu, function.address, self._users)).items():
            self._tree.file(f"{function.path}/{name}", file.reader, file.writer)
        self._tree.folder(f"{function.path}/vfio-dev/vfio{function.group}")
        self._groups.open(function.group)

    def detach(self, function: Function) -> None:
        """A real kernel would wait for the guest that has it; here it is EBUSY."""
        if self._users.in_use(function.address):
            raise refusal(errno.EBUSY)
        gpu = self._gpus[function.physfn]
        if gpu.vgpu(function.address) is not None:
            gpu.destroy(function.address)
        for folder in ("nvidia", "vfio-dev"):
            self._tree.drop(f"{function.path}/{folder}")
        if function.group is not None:
            self._groups.shut(function.group)
