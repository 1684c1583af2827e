"""What libvirt, QEMU and VFIO refuse when a domain starts, in their words and order.

The test driver starts anything; these are the refusals of the real ones (libvirt 9.0, QEMU 7.2).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from vgpumgr.model.address import PciAddress
from vgpumgr.model.errors import HostRefused, InUse, NotFound
from vgpumgr.sim.drivers.plain import VfioPci
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.libvirt import vgpus
from vgpumgr.sim.libvirt.needs import Needs
from vgpumgr.sim.linux.memory import PAGE_KIB

VolumeExists = Callable[[str], bool]


def admit(
    kernel: Kernel, needs: Needs, running: Iterable[Needs], volume_exists: VolumeExists
) -> None:
    """Take memory and devices for the domain, or raise and take nothing."""
    start = _Start(kernel, needs)
    start.check_machine()
    start.check_network()
    start.check_disks(running, volume_exists)
    for device in needs.facts.devices:
        start.check_device(device)
    start.take_memory()
    try:
        vgpus.start(kernel, needs.facts.devices, needs.facts.name)
    except HostRefused:
        kernel.memory.give_back(needs.facts.name)
        raise
    for device in needs.facts.devices:
        kernel.held[device] = needs.facts.name
        if device in kernel.pci.functions:
            kernel.pci.functions[device].dirty = True


def release(kernel: Kernel, name: str) -> None:
    """Give back all that a domain has."""
    kernel.memory.give_back(name)
    devices = [each for each, owner in kernel.held.items() if owner == name]
    vgpus.stop(kernel, devices)
    for device in devices:
        del kernel.held[device]


class _Start:
    def __init__(self, kernel: Kernel, needs: Needs) -> None:
        self._kernel = kernel
        self._needs = needs
        self._doing = f"cannot start domain {needs.facts.name}"

    def check_machine(self) -> None:
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

    def check_network(self) -> None:
        for network in self._needs.networks:
            if network not in self._kernel.host.networks:
                why = f"Network not found: no network with matching name '{network}'"
                raise NotFound(self._doing, why=why)
        for bridge in self._needs.bridges:
            if bridge not in self._kernel.host.bridges:
                raise self._refused(f"Cannot get interface MTU on '{bridge}': No such device")

    def check_disks(self, running: Iterable[Needs], volume_exists: VolumeExists) -> None:
        locked = {disk.path for each in running for disk in each.disks if disk.exclusive}
        for disk in self._needs.disks:
            if not volume_exists(disk.path):
                raise self._refused(
                    f"Cannot access storage file '{disk.path}': No such file or directory"
                )
            if disk.exclusive and disk.path in locked:
                raise InUse(
                    self._doing,
                    why=f"internal error: qemu: Failed to get \"write\" lock on '{disk.path}'; "
                    "is another process using the image?",
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
        if vgpus.is_vendor_vf(self._kernel, function):
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
        if not vgpus.libvirt_knows_variants(self._kernel.host.versions.libvirt):
            raise self._refused(
                f"Unmanaged PCI device {address} must be manually detached from the host"
            )
        self._check_free(address, f"PCI device {address}")
        gpu = self._kernel.gpu_of(address)
        if gpu is None or gpu.vgpu(address) is None:
            raise self._refused(
                f"internal error: qemu: {vgpus.not_given(self._kernel, address, errno.ENODEV)}",
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
