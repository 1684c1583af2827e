"""What a user asks for: one VM, after replicas were expanded and defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# What VMs, hosts and other documents may be called.
NAME = r"[a-z0-9][a-z0-9-]{0,62}"


class DiskMode(StrEnum):
    """How a disk's volume comes to be."""

    FRESH = "fresh"
    COPY = "copy"
    OVERLAY = "overlay"


class NumaPolicy(StrEnum):
    """Where memory and CPUs lie relative to the GPU."""

    NONE = "none"
    PREFER = "prefer"
    REQUIRE = "require"


class PlacementPolicy(StrEnum):
    """How GPUs are chosen among those that fit."""

    BREADTH_FIRST = "breadth-first"
    DEPTH_FIRST = "depth-first"
    LEAST_FRAGMENTATION = "least-fragmentation"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """``count`` GPU parts, optionally only on a GPU of ``model`` or through one ``framework``.

    ``models`` are several models that do alike; it is empty where ``model`` says it all.
    By name (``profile``: a vGPU type, a MIG profile, ``passthrough``) or, with an empty
    ``profile``, by size: the smallest that has ``memory_mib``. ``frame_rate_limiter`` None leaves
    the driver's default.
    """

    profile: str = ""
    count: int = 1
    model: str | None = None
    memory_mib: int | None = None
    framework: str | None = None
    frame_rate_limiter: bool | None = None
    models: tuple[str, ...] = ()

    @property
    def any_of(self) -> tuple[str, ...]:
        """The models that will do, in the user's spelling; empty: any."""
        return self.models or ((self.model,) if self.model is not None else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """One disk. ``size_bytes`` 0 means the image's own size (copy and overlay)."""

    pool: str = "default"
    size_bytes: int = 0
    mode: DiskMode = DiskMode.FRESH
    image: str | None = None
    image_format: str = "qcow2"
    format: str = "qcow2"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """A NIC on a host bridge or a libvirt network: exactly one of the two."""

    bridge: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInit:
    """Text of a NoCloud seed. None leaves the file out (meta-data is always made)."""

    user_data: str | None = None
    network_config: str | None = None
    pool: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where a VM may run. Label maps match when every pair is present."""

    hosts: tuple[str, ...] = ()
    host_labels: Mapping[str, str] = field(default_factory=dict)
    together_with: Mapping[str, str] = field(default_factory=dict)
    apart_from: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSpec:
    """One VM as asked for. Memory in MiB; ``hugepage_kib`` None = ordinary pages."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: tuple[GpuRequest, ...] = ()
    disks: tuple[DiskSpec, ...] = ()
    nics: tuple[NicSpec, ...] = ()
    cloud_init: CloudInit | None = None
    firmware: str = "uefi"
    display: bool = False
    autostart: bool = False
    pin_cpus: bool = False
    numa: NumaPolicy = NumaPolicy.PREFER
    hugepage_kib: int | None = None
    affinity: Affinity = field(default_factory=Affinity)
    policy: PlacementPolicy | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tenant: str = "default"


class VmState(StrEnum):
    """A VM in the ledger."""

    RESERVED = "reserved"
    ACTIVE = "active"
    MIGRATING = "migrating"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPlace:
    """A place on a host: memory bound to ``numa_node``, ``cpus`` the host CPUs pinned there."""

    host: str
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRecord:
    """A VM in the ledger. ``running`` is what the user last asked for.

    ``volumes`` are the (pool, name) pairs made for this VM, ``cpus`` the host CPUs pinned to it.
    ``moving_to`` is set while a migration takes it there: until that ends it holds both places.
    ``definition`` is the domain XML that an adopted VM came with, less our mark: it is what the VM
    is defined from. Empty for a VM that we made, whose definition follows from its spec.
    """

    id: str
    spec: VmSpec
    host: str
    state: VmState
    running: bool
    generation: int
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    created_at: float = 0.0
    moving_to: VmPlace | None = None
    definition: str = ""

    @property
    def name(self) -> str:
        """The user's name for it, which is also the domain's name."""
        return self.spec.name


class AllocationState(StrEnum):
    """reserved → active → released; orphaned when the host shows the unit empty."""

    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASED = "released"
    ORPHANED = "orphaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePart:
    """The MIG GPU instance behind a vGPU; ``start`` and ``size`` in slices of the memory grid.

    ``gpu`` is the PF's address. ``make`` False: it is there already (a layout made it) and stays
    at release.
    """

    gpu: str
    profile: str
    profile_id: int
    start: int
    size: int
    make: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Units of one GPU held for one VM.

    ``slots`` are the unit numbers taken; ``device`` is what realises it on the host: the mdev
    UUID, or the PCI address of a VF or a whole GPU; ``parent`` and ``type_id`` are set for an
    mdev (the parent may be a VF), ``type_id`` alone for a vendor-specific VF. ``companions`` are
    the sibling functions that must follow a whole GPU to vfio-pci. ``vf`` is the number of the
    virtual function taken, ``placement_id`` where a mixed-size vGPU must begin, ``partition`` the
    NVSwitch partition that a VM's whole GPUs make up.
    """

    id: str
    vm_id: str
    vm: str
    host: str
    gpu: str
    profile: str
    framework: str
    device: str
    slots: tuple[int, ...]
    type_id: str = ""
    parent: str = ""
    companions: tuple[str, ...] = ()
    vf: int | None = None
    instance: InstancePart | None = None
    placement_id: int | None = None
    frame_rate_limiter: bool | None = None
    partition: int | None = None
    state: AllocationState = AllocationState.RESERVED
    generation: int = 1
    created_at: float = 0.0
