"""Placement's input (supply, request) and its answer (decision, reasons). Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.gpu import Framework
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A profile that a GPU can make.

    ``units`` is the number of memory slots one instance takes, ``max_instances`` the most of this
    profile on one GPU, ``size_class`` what must be equal among vGPUs of a same-size GPU (0 where
    sizes mix freely). ``max_per_vm`` is the most of it in one VM. ``mmio64_mib`` is the PCI window
    the guest needs. ``verified`` False marks a number no primary source confirms.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Something that lives on a GPU now: ours (``vm`` set) or foreign (``foreign`` says what)."""

    profile: str
    framework: Framework
    units: int
    size_class: int = 0
    vm: str = ""
    foreign: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSupply:
    """One GPU as placement sees it. ``blocked`` is a sentence when nothing may be placed on it.

    ``passthrough_blocked`` is a sentence when only the whole GPU may not be given (IOMMU off,
    group shared, console device). ``same_size`` True: all vGPUs must share one ``size_class``.
    ``available`` is the driver's own count per type id where it answered: a ceiling.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaSupply:
    """Free resources of one NUMA node. ``free_cpus`` are CPUs that no VM is pinned to."""

    id: int
    free_cpus: tuple[int, ...]
    free_memory_mib: int
    free_hugepages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSupply:
    """One host as placement sees it. ``blocked`` is a sentence when it takes no VM."""

    name: str
    free_vcpus: int
    free_memory_mib: int
    numa: tuple[NumaSupply, ...]
    gpus: tuple[GpuSupply, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    vm_labels: tuple[Mapping[str, str], ...] = ()
    networks: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    foreign_domains: frozenset[str] = frozenset()
    blocked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every host's supply, in a stable order."""

    hosts: tuple[HostSupply, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one GPU (or one host, ``gpu`` empty) refused: the first rule that failed.

    ``code`` is stable (``same-size``, ``memory``, …); ``facts`` are its numbers; ``text`` is the
    sentence a user reads, numbers included.
    """

    code: str
    host: str
    text: str
    gpu: str = ""
    device: str = ""
    model: str = ""
    facts: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One GPU part for one VM: which GPU, which offer, which slots of it."""

    gpu: str
    device: str
    offer: Offer
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A yes: the host, the parts, and where CPUs and memory go."""

    request: VmSpec
    host: str
    assignments: tuple[Assignment, ...]
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """A no, with one reason per GPU (or per host that failed before its GPUs were looked at)."""

    request: VmSpec
    reasons: tuple[Reason, ...]


Decision = Placed | NotPlaced
