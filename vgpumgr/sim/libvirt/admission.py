"""Admission of a starting domain: refusals of libvirt, QEMU, VFIO and NVIDIA's driver."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence

from vgpumgr import catalog
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import HostRefused, InUse, NotFound
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.host import MachineFeature
from vgpumgr.sim.drivers.pci_drivers import VfioPci
from vgpumgr.sim.libvirt import network_filters
from vgpumgr.sim.libvirt.domain_needs import Disk, Needs, NicFunctionNeed
from vgpumgr.sim.libvirt.driver_node import machine_features
from vgpumgr.sim.linux.numa_memory import PAGE_KIB
from vgpumgr.sim.linux.pci_function import Function
from vgpumgr.sim.machine import sriov_nics
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

# A VF that stays on its vendor's driver, with managed='no'.
_VARIANT_DRIVERS_SINCE = (9, 7)

_MOST = catalog.limits().per_vm


def is_vendor_vf(kernel: Kernel, function: Function) -> bool:
    """Is it a VF that carries vGPUs by itself (kernel 6.8 and later)?"""
    gpu = kernel.gpu_of(function.address)
    return gpu is not None and kernel.tree.exists(f"{function.path}/nvidia")


def libvirt_knows_variants(version: str) -> bool:
    """May a function be given to a guest while a variant driver has it?"""
    parts = version.split(".")[:2]
    return all(part.isdigit() for part in parts) and (
        tuple(int(part) for part in parts) >= _VARIANT_DRIVERS_SINCE
    )


def start_vgpus(kernel: Kernel, domain: DomainFacts) -> None:
    """The vGPUs among its devices begin to run, all of them or none: HostRefused."""
    devices, vm = domain.devices, domain.name
    begun: list[str] = []
    groups = list(_by_gpu(kernel, devices))
    _check_together(kernel, vm, groups)
    for gpu, carriers in groups:
        try:
            gpu.start_vm(carriers, vm, domain.uuid)
        except OSError as error:
            stop_vgpus(kernel, begun)
            raise _refused(kernel, vm, carriers[0], error) from error
        begun += carriers


def stop_vgpus(kernel: Kernel, devices: Sequence[str]) -> None:
    """Their VM is gone; the plugin lives on a little."""
    for gpu, carriers in _by_gpu(kernel, devices):
        gpu.stop_vm(carriers)
        for carrier in carriers:
            kernel.stopped_at[carrier] = kernel.clock.now()


def not_given(kernel: Kernel, device: str, number: int) -> str:
    """What QEMU prints of a device that VFIO does not give; the hint comes whatever the reason."""
    group = kernel.group_of(device)
    return (
        f"vfio {device}: error getting device from group {group}: {os.strerror(number)}\n"
        f"Verify all devices in group {group} are bound to vfio-<bus> or pci-stub and not already "
        "in use"
    )


def _check_together(kernel: Kernel, vm: str, groups: Iterable[tuple[NvidiaGpu, list[str]]]) -> None:
    """Several vGPUs in one VM: 16 at most, of one board and series, of types that may share."""
    made = [(gpu.model, carrier, gpu.vgpu(carrier)) for gpu, names in groups for carrier in names]
    types = [(board, vgpu.type) for board, _, vgpu in made if vgpu is not None]
    kinds = {(board.key, kind.series) for board, kind in types}
    alone = any(not kind.multi_vgpu for _, kind in types)
    if len(types) > 1 and (len(types) > _MOST or len(kinds) > 1 or alone):
        raise _refused(kernel, vm, made[-1][1], OSError(errno.EIO, ""))


def _by_gpu(kernel: Kernel, devices: Sequence[str]) -> Iterable[tuple[NvidiaGpu, list[str]]]:
    found: dict[str, tuple[NvidiaGpu, list[str]]] = {}
    for device in devices:
        gpu = kernel.gpu_of(device)
        if gpu is not None:
            found.setdefault(gpu.address, (gpu, []))[1].append(device)
    return found.values()


def _refused(kernel: Kernel, vm: str, carrier: str, error: OSError) -> HostRefused:
    number = error.errno or errno.EIO
    return HostRefused(
        f"cannot start domain {vm}",
        why=f"internal error: qemu: {not_given(kernel, carrier, number)}",
        errno_name=errno.errorcode[number],
    )


# The test driver starts anything; these are the refusals of the real ones (libvirt 9.0, QEMU 7.2).


FileChain = Callable[[str], Iterable[str]]


def admit(
    kernel: Kernel,
    needs: Needs,
    running: Iterable[Needs],
    exists: Callable[[str], bool],
    chain: FileChain,
) -> None:
    """Take memory and devices for the domain, or raise and take nothing. ``chain`` are the files
    that QEMU opens for one: itself, what it is laid over, and so on.
    """
    start = _Start(kernel, needs)
    start.check_machine()
    start.check_network()
    start.check_disks(running, exists, chain)
    nics = {each.address for each in needs.nics if each.managed}
    for nic in needs.nics:
        start.check_nic(nic)
    for device in needs.facts.devices:
        if device not in nics:
            start.check_device(device)
    start.take_memory()
    try:
        start_vgpus(kernel, needs.facts)
    except HostRefused:
        kernel.memory.give_back(needs.facts.name)
        raise
    for nic in needs.nics:
        _give(kernel, nic)
    for device in needs.facts.devices:
        kernel.held[device] = needs.facts.name
        if device in kernel.pci.functions:
            kernel.pci.functions[device].dirty = True


def release(kernel: Kernel, name: str) -> None:
    """Give back all that a domain has."""
    kernel.memory.give_back(name)
    devices = [each for each, owner in kernel.held.items() if owner == name]
    stop_vgpus(kernel, devices)
    for device in devices:
        del kernel.held[device]
        if device in kernel.given:
            _take_back(kernel, device)


def _give(kernel: Kernel, nic: NicFunctionNeed) -> None:
    """libvirt binds the VF to vfio-pci, and has its PF set MAC address and VLAN."""
    port, number = kernel.nic_port(nic.address) or (None, 0)
    if port is None:
        return
    if nic.managed:
        _bind(kernel, nic.address, VfioPci.name)
    kernel.given[nic.address] = sriov_nics.give(port, number, nic.mac, nic.vlan)


def _take_back(kernel: Kernel, address: str) -> None:
    port, number = kernel.nic_port(address) or (None, 0)
    before = kernel.given.pop(address)
    if port is not None:
        sriov_nics.take_back(port, number, before)
        _bind(kernel, address, "")


def _bind(kernel: Kernel, address: str, driver: str) -> None:
    kernel.modprobe(VfioPci.name)
    function = kernel.pci.functions[address]
    kernel.pci.unbind(function)
    function.override = driver
    kernel.pci.probe(function)


# What libvirt says at a start.
_WITHOUT = {
    MachineFeature.TPM: "operation failed: Unable to find 'swtpm' binary in $PATH",
    MachineFeature.SECURE_BOOT: "operation failed: Unable to find 'efi' firmware that is compatible"
    " with the current configuration",
    MachineFeature.BRIDGE_VLAN: "unsupported configuration: vlan tagging not supported for this"
    " type of network",
}


class DiskLocks:
    """The locks that running QEMUs have on files: one writes to a file, or any number read it."""

    def __init__(self, running: Iterable[Needs], chain: FileChain) -> None:
        self._chain = chain
        disks = [disk for each in running for disk in each.disks]
        self._written = {disk.path for disk in disks if disk.exclusive}
        below = (path for disk in disks for path in tuple(chain(disk.path))[1:])
        self._read = {*below, *(disk.path for disk in disks if not disk.exclusive)}

    def refused(self, disk: Disk) -> str:
        """QEMU's words where the disk cannot be opened; empty where it can."""
        first, *below = self._chain(disk.path)
        if disk.exclusive and first in self._written | self._read:
            return _locked("write", first)
        taken = next((path for path in (first, *below) if path in self._written), "")
        return _locked('shared "write', taken) if taken else ""


def _locked(kind: str, path: str) -> str:
    return f"Failed to get \"{kind}\" lock on '{path}'; is another process using the image?"


class _Start:
    def __init__(self, kernel: Kernel, needs: Needs) -> None:
        self._kernel = kernel
        self._needs = needs
        self._doing = f"cannot start domain {needs.facts.name}"

    def check_machine(self) -> None:
        self._check_features()
        missing = self._needs.cpus - set(range(self._kernel.host.cpus))
        if missing:
            raise self._refused(
                f"unable to set CPU affinity: Invalid argument (the host has no CPU {min(missing)})"
            )
        there = {node.id for node in self._kernel.memory.nodes}
        for piece in self._needs.memory:
            if nodes := piece.nodes - there:
                raise self._refused(
                    f"unsupported configuration: NUMA node {min(nodes)} is unavailable"
                )
            if not piece.strict and len(piece.nodes) > 1:
                raise self._refused(
                    "internal error: NUMA memory tuning in 'preferred' mode "
                    "only supports single node"
                )

    def _check_features(self) -> None:
        there = set(machine_features(self._kernel.host))
        for each in sorted(self._needs.features - there):
            raise self._refused(_WITHOUT[each])

    def check_network(self) -> None:
        for network in self._needs.networks:
            if network not in self._kernel.host.networks:
                why = f"Network not found: no network with matching name '{network}'"
                raise NotFound(self._doing, why=why)
        for bridge in self._needs.bridges:
            if bridge not in self._kernel.host.bridges:
                raise self._refused(f"Cannot get interface MTU on '{bridge}': No such device")
        for name in self._needs.filters:
            if name not in network_filters.names(self._kernel):
                raise self._refused(f"internal error: referenced filter '{name}' is missing")

    def check_disks(
        self, running: Iterable[Needs], exists: Callable[[str], bool], chain: FileChain
    ) -> None:
        locks = DiskLocks(running, chain)
        for disk in self._needs.disks:
            for path in chain(disk.path):
                if not exists(path):
                    raise self._refused(
                        f"Cannot access storage file '{path}': No such file or directory"
                    )
            if lock := locks.refused(disk):
                raise InUse(self._doing, why=f"internal error: qemu: {lock}")

    def check_nic(self, nic: NicFunctionNeed) -> None:
        """libvirt's words on a NIC that is a VF."""
        found = self._kernel.nic_port(nic.address)
        if found is None:
            raise self._refused(f"Device {nic.address} not found: could not access its config")
        port, number = found
        self._check_free(nic.address, f"PCI device {nic.address}")
        if port.function.group is None:
            raise self._refused("unsupported configuration: host doesn't support passthrough")
        if not port.nic.up:
            raise self._refused(
                f"internal error: Unable to configure VF {number} of PF '{port.nic.name}' because "
                "the PF is not online. Please change host network config to put the PF online."
            )

    def check_device(self, device: str) -> None:
        try:
            PciAddress.parse(device)
        except ValueError:
            self._check_mdev(device)
        else:
            self._check_function(device)

    def _check_mdev(self, uuid: str) -> None:
        if uuid not in self._kernel.mdevs.devices:
            raise self._refused(f"device not found: mediated device '{uuid}' not found")
        self._check_free(uuid, f"mediated device /sys/bus/mdev/devices/{uuid}")

    def _check_function(self, address: str) -> None:
        function = self._kernel.pci.functions.get(address)
        if function is None:
            raise self._refused(f"Device {address} not found: could not access its config")
        if function.lost:
            raise self._refused(f"internal error: Unknown PCI header type '127' for {address}")
        if is_vendor_vf(self._kernel, function):
            self._check_vendor_vf(address)
            return
        if function.driver != VfioPci.name or function.group is None:
            raise self._refused(
                f"Unmanaged PCI device {address} must be manually detached from the host"
            )
        mates = self._kernel.groups.members(function.group)
        for mate in mates:
            self._check_free(mate, f"PCI device {mate}")
        if any(not self._viable(mate) for mate in mates):
            raise self._refused(
                f"internal error: qemu: vfio {address}: group {function.group} is not viable: "
                "ensure all devices within the iommu_group are bound to their vfio bus driver"
            )

    def _check_vendor_vf(self, address: str) -> None:
        """A VF under its vendor's driver: never managed, and of use with a type only (§5)."""
        if address in self._needs.managed:
            raise self._refused(
                f"unsupported configuration: PCI device {address} carries vGPUs under the driver "
                "nvidia and must not be managed"
            )
        if not libvirt_knows_variants(self._kernel.host.versions.libvirt):
            raise self._refused(
                f"Unmanaged PCI device {address} must be manually detached from the host"
            )
        self._check_free(address, f"PCI device {address}")
        gpu = self._kernel.gpu_of(address)
        if gpu is None or gpu.vgpu(address) is None:
            raise self._refused(
                f"internal error: qemu: {not_given(self._kernel, address, errno.ENODEV)}",
                "ENODEV",
            )

    def _check_free(self, device: str, what: str) -> None:
        owner = self._kernel.held.get(device)
        if owner is not None:
            raise InUse(
                self._doing,
                why="Requested operation is not valid: "
                f"{what} is in use by driver QEMU, domain {owner}",
            )

    def _viable(self, address: str) -> bool:
        return self._kernel.pci.functions[address].driver in {None, VfioPci.name}

    def take_memory(self) -> None:
        facts, huge = self._needs.facts, self._needs.huge_kib
        if huge is not None and huge != PAGE_KIB:
            raise self._refused(
                f"hugepages: Unable to find any usable hugetlbfs mount for {huge} KiB"
            )
        try:
            for piece in self._needs.memory:
                self._kernel.memory.take(
                    facts.name,
                    piece.mib,
                    huge=huge is not None,
                    nodes=piece.nodes,
                    strict=piece.strict,
                )
        except OSError as error:
            self._kernel.memory.give_back(facts.name)
            what = "unable to map backing store for" if huge else "cannot set up"
            raise self._refused(
                f"internal error: qemu: {what} guest RAM: Cannot allocate memory", "ENOMEM"
            ) from error

    def _refused(self, why: str, errno_name: str = "") -> HostRefused:
        return HostRefused(self._doing, why=why, errno_name=errno_name)
