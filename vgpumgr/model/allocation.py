"""Allocations: units of a GPU that are held for a VM."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    NVSwitch partition that a VM's whole GPUs make up. ``memory_mib`` is the profile's frame buffer;
    None where that was not kept when it was made.
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
    memory_mib: int | None = None
    state: AllocationState = AllocationState.RESERVED
    generation: int = 1
    created_at: float = 0.0
