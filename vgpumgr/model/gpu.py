"""GPUs as a host shows them, and what each of them can make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.address import PciAddress


class Framework(StrEnum):
    """A way of giving a VM a GPU."""

    PASSTHROUGH = "passthrough"
    MDEV = "mdev"


PASSTHROUGH_PROFILE = "passthrough"


@dataclass(frozen=True, slots=True, kw_only=True)
class MdevType:
    """One entry of ``mdev_supported_types``; ``available`` None = could not be read."""

    type_id: str
    name: str
    available: int | None
    device_api: str = "vfio-pci"
    description: str = ""

    @property
    def profile(self) -> str:
        """The name users write: NVIDIA's without GRID or NVIDIA, else the type id."""
        return profile_name(self.name, self.type_id)


def profile_name(driver_name: str, type_id: str) -> str:
    """``GRID T4-4Q`` → ``T4-4Q``; other vendors' types keep their id (``mtty-1``)."""
    if type_id.startswith("nvidia-"):
        return driver_name.removeprefix("GRID ").removeprefix("NVIDIA ")
    return type_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Mdev:
    """An existing mediated device."""

    uuid: str
    parent: str
    type_id: str
    iommu_group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU (or virtual mdev parent) as the last probe saw it.

    ``device`` is its name on the host: a PCI address, or the parent's name under
    ``/sys/class/mdev_bus`` for a virtual parent such as ``mtty``. None means *unknown*.
    ``type_units`` is the number of memory slots an mdev of each type takes, where it is known.
    """

    device: str
    path: str
    model: str
    vendor_device: str = ""
    uuid: str | None = None
    serial: str | None = None
    numa_node: int | None = None
    memory_mib: int | None = None
    driver: str | None = None
    iommu_group: int | None = None
    group_devices: tuple[str, ...] = ()
    boot_vga: bool = False
    reset_methods: tuple[str, ...] = ()
    mdev_types: tuple[MdevType, ...] = ()
    type_units: Mapping[str, int] = field(default_factory=dict)

    @property
    def address(self) -> PciAddress | None:
        """The PCI address, or None for a virtual parent."""
        try:
            return PciAddress.parse(self.device)
        except ValueError:
            return None


class GpuState(StrEnum):
    """What the ledger thinks of a GPU."""

    HEALTHY = "healthy"
    QUARANTINED = "quarantined"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """A GPU in the ledger: our own key, the evidence it was recognised by, its last facts.

    ``units`` is the number of memory slots an allocation can take from it (1 where the GPU can
    only be given whole).
    """

    id: str
    host: str
    facts: GpuFacts
    units: int
    state: GpuState = GpuState.HEALTHY
    generation: int = 0
