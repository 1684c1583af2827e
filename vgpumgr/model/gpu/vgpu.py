"""Ways of giving a VM a GPU, and what realises a vGPU on the host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Framework(StrEnum):
    """A way of giving a VM a GPU."""

    PASSTHROUGH = "passthrough"
    MDEV = "mdev"
    VFIO_VF = "vfio-vf"
    PCI_VF = "pci-vf"


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
class VendorVgpu:
    """The ``nvidia/`` files of a VF under the vendor-specific VFIO framework (kernel >= 6.8).

    ``creatable`` are the type ids the driver would take now (None: could not be read), ``type_id``
    is 0 while the VF carries no vGPU. ``instance`` (GPU instance id) and ``placement_id`` are the
    driver's choice, readable only while a vGPU exists.
    """

    creatable: tuple[int, ...] | None
    type_id: int | None
    instance: int | None = None
    placement_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VfFacts:
    """A virtual function: ``number`` is the N of the PF's ``virtfnN`` link.

    Exactly one of ``vendor`` and ``mdev_types`` is filled in where vGPUs are made on it; neither
    where the VF itself is what a VM gets (AMD, Intel).
    """

    number: int
    address: str
    driver: str | None = None
    iommu_group: int | None = None
    reset_methods: tuple[str, ...] = ()
    mdev_types: tuple[MdevType, ...] = ()
    vendor: VendorVgpu | None = None

    @property
    def is_plain(self) -> bool:
        """Is the VF itself what a VM gets? Its files tell, never its driver or vendor."""
        return self.vendor is None and not self.mdev_types
