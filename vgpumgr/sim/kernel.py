"""The kernel of one simulated host: boots from its hardware and holds all that is not durable."""

from __future__ import annotations

import errno
import posixpath
import uuid
from collections.abc import MutableMapping

from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.drivers import HdAudio, Nvidia, VfioPci
from vgpumgr.sim.hardware import Gpu, hardware
from vgpumgr.sim.iommu import IommuGroups
from vgpumgr.sim.mdev import MdevCore
from vgpumgr.sim.memory import Memory
from vgpumgr.sim.parents import Sample
from vgpumgr.sim.pci import Function, PciBus
from vgpumgr.sim.tree import Tree, refusal

FILE = "file:"


class Kernel:
    """Files with behaviour, devices, memory, and who holds what.

    ``held`` maps a device (mdev UUID or PCI address) to the running domain that has it. Texts of
    ``durable`` under ``file:`` are ordinary files that outlive the kernel.
    """

    def __init__(self, host: SimHost, durable: MutableMapping[str, str]) -> None:
        self.host = host
        self.held: dict[str, str] = {}
        self.tree = Tree()
        self.memory = Memory(host.cpus, host.memory_mib, host.hugepages_1gib, host.numa_nodes)
        self.groups = IommuGroups(self.tree)
        self.mdevs = MdevCore(self.tree, self.groups, self.in_use)
        self.pci = PciBus(self.tree, self.groups)
        self._durable = durable
        self._show_machine()
        self._plug()
        for key in durable:
            if key.startswith(FILE):
                self._show_file(key.removeprefix(FILE))

    def in_use(self, device: str) -> bool:
        """Does a running domain hold the device?"""
        return device in self.held

    def group_of(self, device: str) -> int | None:
        """The IOMMU group of an mdev or PCI function; None where it has none."""
        if device in self.mdevs.devices:
            return self.mdevs.devices[device].group
        function = self.pci.functions.get(device)
        return function.group if function else None

    def busy_groups(self) -> set[int | None]:
        """The groups that running domains have open."""
        return {self.group_of(device) for device in self.held}

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

    def modprobe(self, module: str) -> tuple[int, str]:
        """Load a module: exit status and output as modprobe's."""
        name = module.replace("_", "-")
        if name == VfioPci.name and name not in self.pci.drivers:
            self.pci.add_driver(VfioPci(self.groups, self.in_use))
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
        tree.text("/proc/cpuinfo", "".join(f"processor\t: {n}\n" for n in range(host.cpus)))
        tree.text("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        tree.text("/proc/sys/kernel/osrelease", f"{host.versions.kernel}\n")
        tree.text("/proc/sys/kernel/hostname", f"{host.name}\n")
        tree.text("/etc/hostname", f"{host.name}\n")
        tree.folder("/sys/class/iommu")
        if host.iommu:
            tree.folder("/sys/class/iommu/dmar0")
        tree.folder("/sys/class/net")
        for bridge in host.bridges:
            tree.folder(f"/sys/class/net/{bridge}/bridge")
        tree.text(f"/boot/vmlinuz-{host.versions.kernel}", "")
        if host.kvm:
            tree.text("/dev/kvm", "")

    def _plug(self) -> None:
        parts = hardware(self.host)
        boards = {gpu.address: gpu.board for gpu in parts.gpus}
        if boards:
            self.pci.add_driver(Nvidia(self.mdevs, boards))
        self.pci.add_driver(HdAudio())
        for gpu in parts.gpus:
            for function in self._functions(gpu):
                self.pci.add(function)
        for sample in parts.samples:
            self.mdevs.register(Sample(sample))

    def _functions(self, gpu: Gpu) -> list[Function]:
        board = gpu.board
        paths = [gpu.path(number) for number in range(2 if board.audio else 1)]
        group = self.groups.add(*paths) if self.host.iommu else None
        kinds = [(board.pci_class, board.device, board.sriov_total), ("040300", "1aef", 0)]
        return [
            Function(
                address=posixpath.basename(path),
                path=path,
                pci_class=pci_class,
                vendor="10de",
                device=device,
                subsystem=board.subsystem,
                numa_node=gpu.numa_node,
                reset_methods="flr bus",
                sriov_total=sriov_total,
                group=group,
            )
            for path, (pci_class, device, sriov_total) in zip(paths, kinds, strict=False)
        ]
