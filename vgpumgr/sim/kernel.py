"""The kernel of one simulated host: boots from its hardware and holds all that is not durable."""

from __future__ import annotations

import errno
import posixpath
import uuid
from collections.abc import MutableMapping

from vgpumgr.model.simulated import SimHost
from vgpumgr.sim import plug
from vgpumgr.sim.boards.hardware import Gpu, hardware
from vgpumgr.sim.drivers.failures import Failures
from vgpumgr.sim.drivers.mdev_parents import NvidiaParent, Sample
from vgpumgr.sim.drivers.nvidia import SRIOV_MANAGE, Nvidia, has_vendor_vfio
from vgpumgr.sim.drivers.plain import VfioPci
from vgpumgr.sim.drivers.processes import Processes
from vgpumgr.sim.drivers.unlisted import LabVf
from vgpumgr.sim.drivers.vgpu_files import PLUGIN_ENDS_S
from vgpumgr.sim.linux import setup
from vgpumgr.sim.linux.clock import Clock
from vgpumgr.sim.linux.function import Function
from vgpumgr.sim.linux.iommu import IommuGroups
from vgpumgr.sim.linux.mdev import Device, MdevCore
from vgpumgr.sim.linux.memory import Memory
from vgpumgr.sim.linux.pci import PciBus
from vgpumgr.sim.linux.sriov import Sriov
from vgpumgr.sim.linux.tree import Tree, refusal
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

FILE = "file:"
VOLATILE = "/run/"


class Kernel:
    """Files with behaviour, devices, memory, and who holds what.

    ``held`` maps a device (mdev UUID or PCI address) to the running domain that has it,
    ``stopped_at`` to the time when the last one let go. ``spoiled`` are mdevs that a move which
    failed has left in a state of which no other move begins. ``nvidia``, ``unlisted`` and ``sriov``
    are by PF address. Texts of ``durable`` under ``file:`` are ordinary files that outlive the
    kernel.
    """

    def __init__(self, host: SimHost, durable: MutableMapping[str, str]) -> None:
        self.host = host
        self.clock = Clock()
        self.held: dict[str, str] = {}
        self.stopped_at: dict[str, float] = {}
        self.spoiled: list[Device] = []
        self.failures = Failures()
        self.setup = self.fresh_setup()
        self.tree = Tree()
        self.memory = Memory(host.cpus, host.memory_mib, host.hugepages_1gib, host.numa_nodes)
        self.groups = IommuGroups(self.tree)
        self.mdevs = MdevCore(self.tree, self.groups)
        self.pci = PciBus(self.tree, self.groups)
        self.gpus = hardware(host).gpus
        self.nvidia = plug.nvidia_gpus(host, self.gpus, durable)
        self.unlisted = plug.unlisted_gpus(host, self.gpus, durable)
        self.sriov: dict[str, Sriov] = {}
        self.processes = Processes(self.tree, self.nvidia)
        self.fabric = plug.fabric_manager(host, self.gpus, self.nvidia, self.clock.now)
        self._durable = durable
        self._show_machine()
        self._plug()
        for key in list(durable):
            if key.startswith(FILE + VOLATILE):  # a power cut empties it
                del durable[key]
            elif key.startswith(FILE):
                self._show_file(key.removeprefix(FILE))

    def in_use(self, device: str) -> bool:
        """Does a running domain hold the device?"""
        return device in self.held

    def is_ending(self, carrier: str) -> bool:
        """Is the plugin of a vGPU whose VM has stopped still there?"""
        stopped = self.stopped_at.get(carrier)
        return stopped is not None and self.clock.now() < stopped + PLUGIN_ENDS_S

    def gpu_of(self, device: str) -> NvidiaGpu | None:
        """The GPU behind a vGPU: an mdev, or a VF that carries one; None for anything else."""
        mdev = self.mdevs.devices.get(device)
        if mdev is not None:
            return mdev.parent.gpu if isinstance(mdev.parent, NvidiaParent) else None
        function = self.pci.functions.get(device)
        if function is None or function.driver not in {Nvidia.name, LabVf.name}:
            return None
        return self.nvidia.get(function.physfn) or self.unlisted.get(function.physfn)

    def group_of(self, device: str) -> int | None:
        """The IOMMU group of an mdev or PCI function; None where it has none."""
        if device in self.mdevs.devices:
            return self.mdevs.devices[device].group
        function = self.pci.functions.get(device)
        return function.group if function else None

    def busy_groups(self) -> set[int | None]:
        """The groups that running domains have open."""
        return {self.group_of(device) for device in self.held}

    def slot(self, address: str) -> list[Function]:
        """A PF with the functions beside it and its VFs."""
        slot = address.rpartition(".")[0]
        return [
            each
            for each in self.pci.functions.values()
            if each.physfn == address or each.address.rpartition(".")[0] == slot
        ]

    def store(self, path: str, text: str) -> None:
        """Write an ordinary file that survives a power cut."""
        self._durable[FILE + path] = text
        self._show_file(path)

    def remove(self, path: str) -> None:
        """Remove an ordinary file or an empty folder; OSError as the kernel's."""
        self.tree.real(path)
        if FILE + path not in self._durable and self.tree.names(path):
            raise refusal(errno.ENOTEMPTY, path)
        self._durable.pop(FILE + path, None)
        self.tree.drop(path)

    def fresh_setup(self) -> setup.Setup:
        """The machine as it was set up in the first place."""
        return setup.Setup() if self.host.iommu else setup.Setup(iommus=())

    def modprobe(self, module: str) -> tuple[int, str]:
        """Load a module: exit status and output as modprobe's."""
        name = module.replace("_", "-")
        if name == VfioPci.name and name not in self.pci.drivers:
            self.pci.add_driver(VfioPci(self.groups, self.sriov, self.in_use))
        if name not in self.pci.drivers:
            return 1, f"modprobe: FATAL: Module {module} not found\n"
        return 0, ""

    def _show_file(self, path: str) -> None:
        self.tree.folder(posixpath.dirname(path))
        self.tree.file(path, lambda: self._durable[FILE + path])

    def _show_machine(self) -> None:
        host, tree = self.host, self.tree
        self.memory.show(tree)
        cpus = f"0-{host.cpus - 1}\n"
        tree.text("/sys/devices/system/cpu/online", cpus)
        tree.text("/sys/devices/system/cpu/possible", cpus)
        tree.file("/proc/cpuinfo", self._cpuinfo)
        tree.text("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        tree.text("/proc/sys/kernel/osrelease", f"{host.versions.kernel}\n")
        tree.text("/proc/sys/kernel/hostname", f"{host.name}\n")
        tree.text("/etc/hostname", f"{host.name}\n")
        setup.show(tree, lambda: self.setup, host.versions.kernel, lambda: self.pci.drivers)
        tree.folder("/sys/class/net")
        for bridge in host.bridges:
            tree.folder(f"/sys/class/net/{bridge}/bridge")
        tree.text(f"/boot/vmlinuz-{host.versions.kernel}", "")
        if host.kvm:
            tree.text("/dev/kvm", "")

    def _cpuinfo(self) -> str:
        words = f"model name\t: {self.host.cpu_model}\nflags\t\t: {setup.flags(self.setup)}\n"
        return "".join(f"processor\t: {n}\n{words}\n" for n in range(self.host.cpus))

    def _plug(self) -> None:
        for gpu in self.gpus:
            self._plug_gpu(gpu)
        if self.nvidia:
            self.pci.add_driver(self._nvidia_driver())
            self.tree.text(SRIOV_MANAGE, "")
        for driver in plug.other_drivers(self.gpus, self.sriov):
            self.pci.add_driver(driver)
        if self.unlisted:
            self.pci.add_driver(LabVf(self.tree, self.groups, self.unlisted, self))
        for function in list(self.pci.functions.values()):
            self.pci.probe(function)
        for sample in hardware(self.host).samples:
            self.mdevs.register(Sample(sample, self.in_use))

    def _plug_gpu(self, gpu: Gpu) -> None:
        for function in plug.functions(gpu, self.groups, iommu=self.host.iommu):
            self.pci.add(function)
        if gpu.board.sriov_total:
            pf = self.pci.functions[gpu.address]
            sriov = Sriov(pf, gpu.board, self.tree, self.groups, self.pci, self.in_use)
            sriov.show()
            self.sriov[gpu.address] = sriov

    def _nvidia_driver(self) -> Nvidia:
        return Nvidia(
            self.tree,
            self.groups,
            self.mdevs,
            self.nvidia,
            self,
            vendor_vfio=has_vendor_vfio(self.host.versions.kernel),
        )
