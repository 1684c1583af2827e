"""What a simulated fleet is made of (``kind: Fleet``). Memory in MiB."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpumgr.model.host import Versions

DEFAULT_VERSIONS = Versions(
    kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16"
)


# Boards that the catalogue does not hold: VFs that are plain, VFs that carry vGPUs, MIG.
UNLISTED_PLAIN, UNLISTED_VGPU, UNLISTED_MIG = "UNLISTED-VF", "UNLISTED-VGPU", "UNLISTED-MIG"
UNLISTED = (UNLISTED_PLAIN, UNLISTED_VGPU, UNLISTED_MIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBoard:
    """``count`` GPUs of one catalogue board (``T4``, ``H100-SXM5-80GB``, ``MI300X``), or of one
    of ``UNLISTED``.

    ``vfs`` is AMD gim's module option: how many VFs the driver makes
    when it loads (0: its default, 1).
    """

    board: str
    count: int = 1
    vfs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimNic:
    """A NIC with SR-IOV (Intel 82576): ``vfs`` of its VFs are on, its interface is ``up``. It lies
    below the root port of GPU number ``near_gpu``, of the host's in order; -1: below its own.
    ``trusts`` False: its driver knows no trust, as older ones do.
    """

    name: str
    vfs: int = 4
    up: bool = True
    trusts: bool = True
    near_gpu: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimHost:
    """One simulated host; its GPUs and NICs are spread over its NUMA nodes in order.

    ``fabric`` names the NVSwitch board (``HGX-H100-8``) whose Fabric Manager runs in shared mode.
    Other hosts send it running VMs by its name; ``tls`` False: it has no certificates for that.
    ``tpm``: swtpm is installed there, ``secure_boot``: so is a firmware that can do that.
    ``shared_pools`` are those of its ``pools`` whose volumes other hosts with that pool see too, by
    NFS. ``ceph_pools`` are pools of a Ceph cluster, seen by all hosts with them; ``lvm_pools``
    volume groups of its own with a thin pool.
    """

    name: str
    boards: tuple[SimBoard, ...] = ()
    cpus: int = 64
    memory_mib: int = 512 * 1024
    numa_nodes: int = 2
    hugepages_1gib: int = 0
    iommu: bool = True
    kvm: bool = True
    fabric: str = ""
    versions: Versions = DEFAULT_VERSIONS
    pools: tuple[str, ...] = ("default",)
    shared_pools: tuple[str, ...] = ()
    ceph_pools: tuple[str, ...] = ()
    lvm_pools: tuple[str, ...] = ()
    networks: tuple[str, ...] = ("default",)
    bridges: tuple[str, ...] = ("br0",)
    filters: tuple[str, ...] = ("clean-traffic", "no-mac-spoofing")
    tpm: bool = True
    secure_boot: bool = True
    images: tuple[str, ...] = ("debian-12.qcow2",)
    cpu_model: str = "AMD EPYC 7763 64-Core Processor"
    tls: bool = True
    nics: tuple[SimNic, ...] = ()

    def pool_kind(self, pool: str) -> str:
        """libvirt's name of what kind a storage pool is."""
        if pool in self.ceph_pools:
            return "rbd"
        if pool in self.lvm_pools:
            return "logical"
        return "netfs" if pool in self.shared_pools else "dir"

    @property
    def seen_elsewhere(self) -> tuple[str, ...]:
        """The pools whose volumes other hosts with that pool see, too."""
        return (*self.shared_pools, *self.ceph_pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFleet:
    """All simulated hosts of one sim process."""

    name: str
    hosts: tuple[SimHost, ...] = field(default=())
