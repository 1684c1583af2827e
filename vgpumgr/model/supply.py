"""Placement's input: capacity and usage of every host and GPU, and the profiles on offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.gpu import Framework
from vgpumgr.model.layout import GpuLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStart:
    """A place where the driver would put one: its own number for it, and the slots it takes.

    ``at`` is the first slice of a MIG placement, or a mixed-size placement id.
    """

    at: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOffer:
    """The MIG GPU instance behind an offer.

    ``size`` in slices of the memory grid, ``gpu_slices`` compute slices. ``media`` marks a profile
    with media extensions: one per GPU. ``per_instance`` is the most vGPUs of the type in one
    instance (1 unless the board time-slices inside an instance).
    """

    profile: str
    profile_id: int
    size: int
    gpu_slices: int
    media: bool = False
    per_instance: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A profile that a GPU can make.

    ``units`` is the number of memory slots one instance takes, ``max_instances`` the most of this
    profile on one GPU, ``size_class`` what must be equal among vGPUs of a same-size GPU (0 where
    sizes mix freely). ``max_per_vm`` is the most of it in one VM. ``mmio64_mib`` is the PCI window
    the guest needs. ``verified`` False marks a number no primary source confirms.

    ``names`` are other names for the same thing (``A100D-1-10C`` for ``1g.10gb``). ``starts`` are
    the only places it may lie; empty: any free slots will do. ``needs_vf``: each takes a virtual
    function. ``instance`` is set for a MIG-backed offer; its ``starts`` are the instance's, and
    ``units`` what one vGPU takes of the instance's slots. vGPUs of one VM must be of one board
    model and ``series``.
    """

    profile: str
    framework: Framework
    type_id: str
    units: int
    max_instances: int
    memory_mib: int
    size_class: int = 0
    max_per_vm: int = 16
    mmio64_mib: int = 0
    verified: bool = True
    names: tuple[str, ...] = ()
    series: str = ""
    starts: tuple[SlotStart, ...] = ()
    needs_vf: bool = False
    instance: InstanceOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Something that lives on a GPU now: ours (``vm`` set) or foreign (``foreign`` says what).

    ``start`` is the first slice of the GPU instance it lives in, or its placement id. ``needs`` is
    set while the host has lost it: how the GPU must be partitioned for it to come back.
    """

    profile: str
    framework: Framework
    units: int
    size_class: int = 0
    vm: str = ""
    foreign: str = ""
    start: int | None = None
    needs: GpuLayout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSupply:
    """A MIG GPU instance that exists, or that we hold a place for.

    ``slots`` are all slots under it, ``free`` those that no vGPU in it takes; ``vgpus`` live in
    it, all of ``size_class``. ``id`` None: not made yet. ``blocked`` is a sentence when no vGPU
    may be put into it.
    """

    profile: str
    profile_id: int
    start: int
    size: int
    gpu_slices: int
    slots: tuple[int, ...]
    free: tuple[int, ...]
    id: int | None = None
    media: bool = False
    vgpus: int = 0
    size_class: int = 0
    blocked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeVf:
    """A virtual function that nothing lives on."""

    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSupply:
    """One GPU as placement sees it. ``blocked`` is a sentence when nothing may be placed on it.

    ``passthrough_blocked`` is a sentence when only the whole GPU may not be given (IOMMU off,
    group shared, console device). ``same_size`` True: all vGPUs must share one ``size_class``.
    ``available`` is the driver's own count per type id where it answered: a ceiling.

    ``mixed_size`` True: a vGPU may lie only at its offer's ``starts``. ``instances`` are the MIG
    GPU instances, whose slots are never in ``free_slots``; ``gpu_slices`` the compute slices of
    the board (0 without MIG). ``free_vfs`` in the driver's order. ``could`` maps profiles that
    only a Layout keeps it from making to the Layout's lines (``mig: true, vfs: max``), which an
    ``automatic`` one needs no Layout for;
    ``no_mig_vgpus`` says why nothing is made in its GPU instances, where that is so. ``path`` is
    its folder in sysfs, which says what lies between it and other devices.
    """

    id: str
    device: str
    model: str
    numa_node: int | None
    units: int
    free_slots: tuple[int, ...]
    offers: tuple[Offer, ...]
    usages: tuple[Usage, ...] = ()
    same_size: bool = False
    available: Mapping[str, int] = field(default_factory=dict)
    blocked: str = ""
    passthrough_blocked: str = ""
    mixed_size: bool = False
    instances: tuple[InstanceSupply, ...] = ()
    gpu_slices: int = 0
    free_vfs: tuple[FreeVf, ...] = ()
    module_id: int | None = None
    could: Mapping[str, str] = field(default_factory=dict)
    automatic: bool = False
    no_mig_vgpus: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSupply:
    """An NVSwitch partition: the GPUs (our ids) that a VM must have exactly, or none of them."""

    id: int
    gpus: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaSupply:
    """Free resources of one NUMA node. ``free_cpus`` are CPUs that no VM is pinned to."""

    id: int
    free_cpus: tuple[int, ...]
    free_memory_mib: int
    free_hugepages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSupply:
    """A NIC with SR-IOV: its ``vfs`` that are on, and the ones ``free`` for VMs. ``path``
    is its folder in sysfs, ``networks`` the physical networks that it is joined to. ``blocked`` is
    a sentence when none may be given.
    """

    name: str
    path: str
    numa_node: int | None = None
    networks: tuple[str, ...] = ()
    vfs: tuple[FreeVf, ...] = ()
    free: tuple[FreeVf, ...] = ()
    blocked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSupply:
    """One host as placement sees it. ``blocked`` is a sentence when it takes no VM.

    Where ``partitions`` are listed, the whole GPUs of one VM must be exactly one of them.
    ``pools`` are the free bytes of its storage pools, ``pool_sizes`` all that they have, where
    that is known; ``raw_pools`` hold raw volumes and no files, and ``stalled_pools`` do not answer.
    ``filters`` are libvirt's network filters, ``features`` what machines can have. ``images`` are
    images of the fleet, and bare volumes that were looked for: by the name of their volumes the
    storage pools here that have a copy. ``vcpus`` and ``memory_mib`` are what it offers when
    nothing is on it; 0 where not known. ``nics`` are its NICs with SR-IOV.
    """

    name: str
    free_vcpus: int
    free_memory_mib: int
    numa: tuple[NumaSupply, ...]
    gpus: tuple[GpuSupply, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    vm_labels: tuple[Mapping[str, str], ...] = ()
    networks: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    pool_sizes: Mapping[str, int] = field(default_factory=dict)
    raw_pools: frozenset[str] = frozenset()
    stalled_pools: tuple[str, ...] = ()
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partitions: tuple[PartitionSupply, ...] = ()
    foreign_domains: frozenset[str] = frozenset()
    blocked: str = ""
    vcpus: int = 0
    memory_mib: int = 0
    nics: tuple[NicSupply, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every host's supply, in a stable order."""

    hosts: tuple[HostSupply, ...]
