"""NVIDIA's vGPU host driver in its two shapes (§1), and the programs that hold its GPUs."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial

from vgpumgr.sim.drivers.mdev_parents import NvidiaParent
from vgpumgr.sim.drivers.vgpu_files import Carrier, Users, vf_files
from vgpumgr.sim.linux.file_tree import FileTree, refusal
from vgpumgr.sim.linux.mdev_core import MdevCore
from vgpumgr.sim.linux.pci_bus import Driver, IommuGroups
from vgpumgr.sim.linux.pci_function import Function
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

_FIRST_PID = 4001
_DRIVER = "/proc/driver/nvidia/gpus"


class Processes:
    """The clients of the GPUs; ``minor`` numbers of /dev/nvidia<n> follow the order of ``gpus``."""

    def __init__(self, tree: FileTree, gpus: Mapping[str, NvidiaGpu]) -> None:
        self._tree = tree
        self._gpus = gpus
        self._minors = {address: number for number, address in enumerate(gpus)}
        self._pids: dict[tuple[str, str], int] = {}
        for address, minor in self._minors.items():
            tree.text(f"/dev/nvidia{minor}", "")
            tree.lazy(f"{_DRIVER}/{address}", partial(self._show, address))

    def start(self, address: str, name: str) -> None:
        """A program opens the GPU; one of that name that runs already stays."""
        if (address, name) in self._pids:
            return
        pid = self._pids[address, name] = _FIRST_PID + len(self._pids)
        self._gpus[address].clients.add(name)
        self._tree.text(f"/proc/{pid}/comm", f"{name[:15]}\n")
        node = f"/dev/nvidia{self._minors[address]}"
        self._tree.link(f"/proc/{pid}/fd/3", node, relative=False)

    def stop(self, address: str) -> None:
        """All programs let go of the GPU."""
        for (where, name), pid in list(self._pids.items()):
            if where == address:
                del self._pids[where, name]
                self._tree.drop(f"/proc/{pid}")
        self._gpus[address].clients.clear()

    def _show(self, address: str) -> None:
        gpu, minor = self._gpus[address], self._minors[address]
        self._tree.text(
            f"{_DRIVER}/{address}/information",
            f"Model: \t\t {gpu.board.name}\nGPU UUID: \t {gpu.uuid}\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n",
        )


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
        tree: FileTree,
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
