"""What a simulated fleet is made of (``kind: Fleet``). Memory in MiB."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpumgr.model.host import Versions

DEFAULT_VERSIONS = Versions(
    kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBoard:
    """``count`` GPUs of one catalogue board (``T4``, ``H100-SXM5-80GB``)."""

    board: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimHost:
    """One simulated host; its GPUs are spread over its NUMA nodes in order."""

    name: str
    boards: tuple[SimBoard, ...] = ()
    cpus: int = 64
    memory_mib: int = 512 * 1024
    numa_nodes: int = 2
    hugepages_1gib: int = 0
    iommu: bool = True
    kvm: bool = True
    versions: Versions = DEFAULT_VERSIONS
    pools: tuple[str, ...] = ("default",)
    networks: tuple[str, ...] = ("default",)
    bridges: tuple[str, ...] = ("br0",)
    images: tuple[str, ...] = ("debian-12.qcow2",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFleet:
    """All simulated hosts of one sim process."""

    name: str
    hosts: tuple[SimHost, ...] = field(default=())
