"""The PCI drivers other than NVIDIA's: vfio-pci, Intel's, AMD's, and those of unlisted boards."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import ClassVar

from vgpumgr.sim.boards.unlisted_boards import VF_DRIVER
from vgpumgr.sim.drivers.vgpu_files import Carrier, Users, vf_files
from vgpumgr.sim.linux.file_tree import FileTree, refusal
from vgpumgr.sim.linux.pci_bus import Driver, IommuGroups
from vgpumgr.sim.linux.pci_function import Function
from vgpumgr.sim.linux.sriov_capability import Sriov
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu


class VfioPci(Driver):
    """vfio-pci: only by driver_override, only with an IOMMU, and no PF whose VFs are on.

    Unbinding a function that a VM holds would block in a real kernel; here it is EBUSY.
    """

    name = "vfio-pci"

    def __init__(
        self, groups: IommuGroups, sriov: Mapping[str, Sriov], in_use: Callable[[str], bool]
    ) -> None:
        self._groups = groups
        self._sriov = sriov
        self._in_use = in_use
        self._bound: set[str] = set()

    def takes(self, function: Function) -> bool:
        """False: the driver takes no function by itself."""
        return False

    def attach(self, function: Function) -> None:
        """EINVAL without an IOMMU group, EBUSY with VFs (linux612, behaviour §4)."""
        if function.group is None:
            raise refusal(errno.EINVAL)
        if function.address in self._sriov and self._sriov[function.address].vfs:
            raise refusal(errno.EBUSY)
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


class ByClass(Driver):
    """A driver that takes all functions of a class: of the functions beside a GPU."""

    pci_class: ClassVar[str]

    def takes(self, function: Function) -> bool:
        """By the start of its class."""
        return function.pci_class.startswith(self.pci_class)


class HdAudio(ByClass):
    """snd_hda_intel, on .1 of boards with display outputs."""

    name, pci_class = "snd_hda_intel", "0403"


class Xhci(ByClass):
    """xhci_hcd, on .2 of Turing's RTX boards."""

    name, pci_class = "xhci_hcd", "0c03"


class NvidiaUcsi(ByClass):
    """i2c-nvidia-gpu, on .3 of Turing's RTX boards."""

    name, pci_class = "nvidia-gpu", "0c80"


class Gim(Driver):
    """AMD's MxGPU driver: the VFs come when it loads, as many as its module option says (§16).

    ``counts`` is ``vf_num`` by PF. Where that is more than the board has, the GPU fails to
    initialise, and the driver counts as bound nevertheless: it has no VFs then.
    """

    name = "gim"

    def __init__(self, sriov: Mapping[str, Sriov], counts: Mapping[str, int]) -> None:
        self._sriov = sriov
        self._counts = counts

    def takes(self, function: Function) -> bool:
        """AMD's PFs."""
        return function.address in self._counts

    def attach(self, function: Function) -> None:
        """Bring up the VFs; no driver of the host takes them."""
        sriov, count = self._sriov[function.address], self._counts[function.address]
        if not sriov.vfs and count <= sriov.board.sriov_total:
            sriov.enable(count)

    def detach(self, function: Function) -> None:
        """Take the VFs away; waits without end while a guest has one, here: EBUSY."""
        self._sriov[function.address].disable()


class Intel(Driver):
    """A PF driver with VFs by ``sriov_numvfs``; it takes VFs as well, of the same id (§16)."""

    sets_vfs = True

    def __init__(self, sriov: Mapping[str, Sriov], devices: frozenset[str]) -> None:
        self._sriov = sriov
        self._devices = devices

    def takes(self, function: Function) -> bool:
        """By device id."""
        return function.vendor == "8086" and function.device in self._devices

    def detach(self, function: Function) -> None:
        """A PF's VFs go with it; EBUSY while a guest has one."""
        if not function.physfn:
            self._sriov[function.address].disable()


class Xe(Intel):
    """The kernel's own."""

    name = "xe"


class I915(Intel):
    """Intel's data centre i915 from outside the kernel tree."""

    name = "i915"


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
        self, tree: FileTree, groups: IommuGroups, gpus: Mapping[str, NvidiaGpu], users: Users
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
