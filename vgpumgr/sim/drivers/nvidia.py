"""NVIDIA's vGPU host driver on PFs and VFs, in the two shapes that kernels give it (§1)."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial

from vgpumgr.sim.drivers.mdev_parents import NvidiaParent
from vgpumgr.sim.drivers.vgpu_files import Carrier, Users, vf_files
from vgpumgr.sim.linux.function import Function
from vgpumgr.sim.linux.iommu import IommuGroups
from vgpumgr.sim.linux.mdev import MdevCore
from vgpumgr.sim.linux.pci import Driver
from vgpumgr.sim.linux.tree import Tree, refusal
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

# Comes with the driver.
SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"

_VENDOR_VFIO_SINCE = (6, 8)


def has_vendor_vfio(kernel: str) -> bool:
    """Does a kernel of this version have the vendor-specific VFIO framework, not mdevs on VFs?"""
    major, _, rest = kernel.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return major.isdigit() and (int(major), int(minor or 0)) >= _VENDOR_VFIO_SINCE


class Nvidia(Driver):
    """mdev parents on PFs up to Turing and on VFs below kernel 6.8, vGPU files on VFs from then.

    Unbinding what carries vGPUs, or what programs hold, would block in a real kernel; here it is
    EBUSY. VFs stay when their PF is unbound: vfio-pci refuses it then.
    """

    name = "nvidia"

    def __init__(
        self,
        tree: Tree,
        groups: IommuGroups,
        mdevs: MdevCore,
        gpus: Mapping[str, NvidiaGpu],
        users: Users,
        *,
        vendor_vfio: bool,
    ) -> None:
        self._tree = tree
        self._groups = groups
        self._mdevs = mdevs
        self._gpus = gpus
        self._users = users
        self._vendor_vfio = vendor_vfio
        self._parents: dict[str, NvidiaParent] = {}

    def takes(self, function: Function) -> bool:
        """NVIDIA's display controllers."""
        return function.vendor == "10de" and function.pci_class.startswith("03")

    def attach(self, function: Function) -> None:
        """Bind; ENODEV when it fell off the bus."""
        if function.lost:
            raise refusal(errno.ENODEV)
        if function.physfn:
            self._attach_vf(function)
        elif self._gpus[function.address].board.host_mode == "mdev-on-pf":
            self._register(function, self._gpus[function.address])

    def detach(self, function: Function) -> None:
        """EBUSY while it carries vGPUs or programs hold it."""
        if function.physfn:
            self._detach_vf(function)
            return
        gpu = self._gpus[function.address]
        if gpu.vgpus or gpu.clients:
            raise refusal(errno.EBUSY)
        self._unregister(function)
        gpu.driver_rebound()

    def _attach_vf(self, function: Function) -> None:
        gpu = self._gpus[function.physfn]
        if not self._vendor_vfio:
            self._register(function, gpu)
            return
        self._tree.lazy(f"{function.path}/nvidia", partial(self._show_files, function, gpu))
        if function.group is not None:
            self._tree.folder(f"{function.path}/vfio-dev/vfio{function.group}")
            self._groups.open(function.group)

    def _show_files(self, function: Function, gpu: NvidiaGpu) -> None:
        for name, file in vf_files(Carrier(gpu, function.address, self._users)).items():
            self._tree.file(f"{function.path}/{name}", file.reader, file.writer)

    def _detach_vf(self, function: Function) -> None:
        gpu = self._gpus[function.physfn]
        if gpu.vgpu(function.address) is not None:
            raise refusal(errno.EBUSY)
        self._unregister(function)
        for folder in ("nvidia", "vfio-dev"):
            self._tree.drop(f"{function.path}/{folder}")
        if self._vendor_vfio and function.group is not None:
            self._groups.shut(function.group)

    def _register(self, function: Function, gpu: NvidiaGpu) -> None:
        parent = NvidiaParent(
            function.address,
            function.path,
            gpu.board.types,
            gpu,
            self._users,
            on_vf=bool(function.physfn),
        )
        self._mdevs.register(parent)
        self._parents[function.address] = parent

    def _unregister(self, function: Function) -> None:
        """EBUSY while it carries mdevs."""
        parent = self._parents.get(function.address)
        if parent is not None:
            self._mdevs.unregister(parent)
            del self._parents[function.address]
