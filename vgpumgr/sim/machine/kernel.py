"""The kernel of one simulated host: boots from its hardware and holds all that is not durable.

Waiting puts its clock forward instead of taking time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import posixpath
import time
import uuid
from collections.abc import Callable, MutableMapping, Sequence

from vgpumgr import catalog
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.boards.hardware import Gpu, hardware
from vgpumgr.sim.drivers.fabric_manager import FabricManager
from vgpumgr.sim.drivers.mdev_parents import NvidiaParent, Sample
from vgpumgr.sim.drivers.nvidia_driver import SRIOV_MANAGE, Nvidia, Processes, has_vendor_vfio
from vgpumgr.sim.drivers.pci_drivers import (
    I915,
    Gim,
    HdAudio,
    Igb,
    Igbvf,
    LabVf,
    NvidiaUcsi,
    VfioPci,
    Xe,
    Xhci,
)
from vgpumgr.sim.drivers.vgpu_files import PLUGIN_ENDS_S
from vgpumgr.sim.linux import machine_setup
from vgpumgr.sim.linux.file_tree import FileTree, refusal
from vgpumgr.sim.linux.mdev_core import MdevCore, MdevDevice
from vgpumgr.sim.linux.numa_memory import Memory
from vgpumgr.sim.linux.pci_bus import Driver, IommuGroups, PciBus
from vgpumgr.sim.linux.pci_function import Function
from vgpumgr.sim.linux.sriov_capability import Sriov
from vgpumgr.sim.machine import sriov_nics
from vgpumgr.sim.machine.pcie_links import show_link
from vgpumgr.sim.nvidia.gpu_activity import GpuActivity
from vgpumgr.sim.nvidia.gpu_health import Failures
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu


class HostClock:
    """Unix time in seconds, ahead of ours by what was waited for."""

    def __init__(self) -> None:
        self._waited = 0.0

    def now(self) -> float:
        """The host's time."""
        return time.time() + self._waited

    def wall(self) -> float:
        """What its clock shows: waiting takes no time, so it agrees with ours."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._waited += seconds


class KernelLog:
    """The log of a boot: what drivers write of each GPU, in the order in which it is read."""

    def __init__(self, logs: Sequence[Sequence[str]], clock: HostClock) -> None:
        self._logs = logs
        self._clock = clock
        self._booted = clock.now()
        self._taken = [0] * len(logs)
        self._records: list[str] = []

    def uptime(self) -> float:
        """Seconds since the boot."""
        return self._clock.now() - self._booted

    def records(self) -> list[str]:
        """As ``/dev/kmsg`` gives them: priority, sequence number, microseconds, flags; text."""
        for index, log in enumerate(self._logs):
            for line in log[self._taken[index] :]:
                at = int((self._clock.now() - self._booted) * 1e6)
                self._records.append(f"4,{len(self._records)},{at},-;{line}\n")
            self._taken[index] = len(log)
        return list(self._records)


NVIDIA = "nvidia"


def nvidia_gpus(
    host: SimHost, gpus: tuple[Gpu, ...], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    """The resource manager of every NVIDIA GPU, by PF address."""
    return _managed(host, [gpu for gpu in gpus if gpu.board.driver == NVIDIA], durable)


def unlisted_gpus(
    host: SimHost, gpus: tuple[Gpu, ...], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    """As much for GPUs outside the catalogue whose VFs carry vGPUs."""
    return _managed(
        host, [gpu for gpu in gpus if gpu.board.vgpus and gpu.board.driver != NVIDIA], durable
    )


def _managed(
    host: SimHost, gpus: list[Gpu], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    return {
        gpu.address: NvidiaGpu(
            gpu.board,
            gpu.address,
            seed=_seed(host.name, gpu),
            durable=durable,
            driver=host.versions.driver,
        )
        for gpu in gpus
    }


def pci_functions(gpu: Gpu, groups: IommuGroups, *, iommu: bool) -> list[Function]:
    """The PF and what shares its slot, all in one IOMMU group (behaviour §11)."""
    board = gpu.board
    kinds = [(board.pci_class, board.device), *((s.pci_class, s.device) for s in board.siblings)]
    paths = [gpu.path(number) for number in range(len(kinds))]
    group = groups.add(*paths) if iommu else None
    return [
        Function(
            address=posixpath.basename(path),
            path=path,
            pci_class=pci_class,
            vendor=board.vendor,
            device=device,
            subsystem=board.subsystem,
            numa_node=gpu.numa_node,
            reset_methods="pm bus" if number else board.reset_methods,
            group=group,
            has_vf_bars=bool(board.sriov_total) and not number,
        )
        for number, (path, (pci_class, device)) in enumerate(zip(paths, kinds, strict=True))
    ]


def other_drivers(gpus: tuple[Gpu, ...], sriov: dict[str, Sriov], *, nics: bool) -> list[Driver]:
    """All but NVIDIA's and vfio-pci, as far as the hardware has them loaded."""
    counts = {gpu.address: gpu.vfs or 1 for gpu in gpus if gpu.board.driver == "gim"}
    drivers: list[Driver] = [HdAudio(), Xhci(), NvidiaUcsi()]
    if counts:
        drivers.append(Gim(sriov, counts))
    for kind in (Xe, I915):
        devices = frozenset(gpu.board.device for gpu in gpus if gpu.board.driver == kind.name)
        if devices:
            drivers.append(kind(sriov, devices))
    if nics or any(gpu.board.driver == Igb.name for gpu in gpus):
        drivers += [Igb(sriov), Igbvf()]
    return drivers


def fabric_manager(
    host: SimHost, gpus: tuple[Gpu, ...], managers: dict[str, NvidiaGpu], now: Callable[[], float]
) -> FabricManager | None:
    """Fabric Manager in shared mode, where the host has an NVSwitch board."""
    board = catalog.fabric(host.fabric) if host.fabric else None
    if board is None:
        return None
    numbered = {
        gpu.physical_id: managers[gpu.address] for gpu in gpus if gpu.physical_id is not None
    }
    return FabricManager(board, numbered, now)


def _seed(host: str, gpu: Gpu) -> int:
    """The same at every boot, and of no other GPU of the fleet."""
    words = f"{host} {gpu.bus} {gpu.board.key}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")


FILE = "file:"
VOLATILE = "/run/"

# Of Debian 12's ovmf, what tells machines and features.
_SIGNED_FIRMWARE = json.dumps(
    {
        "interface-types": ["uefi"],
        "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}],
        "features": ["acpi-s3", "enrolled-keys", "requires-smm", "secure-boot"],
    }
)


class Kernel:
    """Files with behaviour, devices, memory, and who holds what.

    ``held`` maps a device (mdev UUID or PCI address) to the running domain that has it,
    ``stopped_at`` to the time when the last one let go. ``spoiled`` are mdevs that a move which
    failed has left in a state of which no other move begins. ``given`` are VFs of NICs that
    libvirt has given to guests, with the settings that they had. ``nvidia``, ``unlisted``
    and ``sriov`` are by PF address. Texts of ``durable`` under ``file:`` are ordinary files that
    outlive the kernel.
    """

    def __init__(self, host: SimHost, durable: MutableMapping[str, str]) -> None:
        self.host = host
        self.clock = HostClock()
        self.held: dict[str, str] = {}
        self.stopped_at: dict[str, float] = {}
        self.spoiled: list[MdevDevice] = []
        self.failures = Failures()
        self.setup = self.fresh_setup()
        self.tree = FileTree()
        self.memory = Memory(host.cpus, host.memory_mib, host.hugepages_1gib, host.numa_nodes)
        self.groups = IommuGroups(self.tree)
        self.mdevs = MdevCore(self.tree, self.groups)
        self.pci = PciBus(self.tree, self.groups)
        self.gpus = hardware(host).gpus
        self.nics = tuple(sriov_nics.ports(host, self.gpus, self.groups))
        self.given: dict[str, sriov_nics.VfSettings] = {}
        self.nvidia = nvidia_gpus(host, self.gpus, durable)
        self.unlisted = unlisted_gpus(host, self.gpus, durable)
        self.activities = {
            address: GpuActivity(gpu, self.clock.now) for address, gpu in self.nvidia.items()
        }
        self.sriov: dict[str, Sriov] = {}
        self.processes = Processes(self.tree, self.nvidia)
        self.log = KernelLog([gpu.log for gpu in self.nvidia.values()], self.clock)
        self.fabric = fabric_manager(host, self.gpus, self.nvidia, self.clock.now)
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

    def is_quiet(self) -> bool:
        """Is nothing under way that ends by itself?"""
        ending = any(map(self.is_ending, self.stopped_at))
        return not ending and (self.fabric is None or self.fabric.is_up())

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

    def fresh_setup(self) -> machine_setup.Setup:
        """The machine as it was set up in the first place."""
        return machine_setup.Setup() if self.host.iommu else machine_setup.Setup(iommus=())

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
        tree.file("/proc/uptime", lambda: f"{self.log.uptime():.2f} 0.00\n")
        tree.text("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        tree.text("/proc/sys/kernel/osrelease", f"{host.versions.kernel}\n")
        tree.text("/proc/sys/kernel/hostname", f"{host.name}\n")
        tree.text("/etc/hostname", f"{host.name}\n")
        machine_setup.show(tree, lambda: self.setup, host.versions.kernel, lambda: self.pci.drivers)
        tree.folder("/sys/class/net")
        for bridge in host.bridges:
            tree.folder(f"/sys/class/net/{bridge}/bridge")
        tree.text(f"/boot/vmlinuz-{host.versions.kernel}", "")
        if host.kvm:
            tree.text("/dev/kvm", "")
        if host.tpm:
            for program in ("swtpm", "swtpm_setup"):
                tree.text(f"/usr/bin/{program}", "")
        if host.secure_boot:
            tree.text("/usr/share/qemu/firmware/40-secure-enrolled.json", _SIGNED_FIRMWARE)

    def _cpuinfo(self) -> str:
        words = (
            f"model name\t: {self.host.cpu_model}\nflags\t\t: {machine_setup.flags(self.setup)}\n"
        )
        return "".join(f"processor\t: {n}\n{words}\n" for n in range(self.host.cpus))

    def _plug(self) -> None:
        for gpu in self.gpus:
            self._plug_gpu(gpu)
        for port in self.nics:
            self._plug_nic(port)
        if self.nvidia:
            self.pci.add_driver(self._nvidia_driver())
            self.tree.text(SRIOV_MANAGE, "")
        for driver in other_drivers(self.gpus, self.sriov, nics=bool(self.nics)):
            self.pci.add_driver(driver)
        if self.unlisted:
            self.pci.add_driver(LabVf(self.tree, self.groups, self.unlisted, self))
        for function in list(self.pci.functions.values()):
            self.pci.probe(function)
        for port in self.nics:
            if port.function.driver is not None and port.nic.vfs:
                self.sriov[port.function.address].enable(port.nic.vfs)
        for sample in hardware(self.host).samples:
            self.mdevs.register(Sample(sample, self.in_use))

    def _plug_gpu(self, gpu: Gpu) -> None:
        for function in pci_functions(gpu, self.groups, iommu=self.host.iommu):
            self.pci.add(function)
        show_link(self.tree, self.pci.functions[gpu.address], self.activities.get(gpu.address))
        if gpu.board.sriov_total:
            pf = self.pci.functions[gpu.address]
            sriov = Sriov(pf, gpu.board, self.tree, self.groups, self.pci, self.in_use)
            sriov.show()
            self.sriov[gpu.address] = sriov

    def _plug_nic(self, port: sriov_nics.NicPort) -> None:
        pf = port.function
        self.pci.add(pf)
        sriov = Sriov(pf, sriov_nics.BOARD, self.tree, self.groups, self.pci, self.in_use)
        sriov.show()
        self.sriov[pf.address] = sriov
        sriov_nics.show(self.tree, port)

    def nic_port(self, vf: str) -> tuple[sriov_nics.NicPort, int] | None:
        """The NIC that a VF is of, and its number; None for anything else."""
        for port in self.nics:
            for number, each in enumerate(self.sriov[port.function.address].vfs):
                if each.address == vf:
                    return port, number
        return None

    def _nvidia_driver(self) -> Nvidia:
        return Nvidia(
            self.tree,
            self.groups,
            self.mdevs,
            self.nvidia,
            self,
            vendor_vfio=has_vendor_vfio(self.host.versions.kernel),
        )
