"""A GPU as the last probe saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.address import PciAddress
from vgpumgr.model.gpu.mig import MigFacts
from vgpumgr.model.gpu.vgpu import MdevType, VfFacts


class GpuHealth(StrEnum):
    """What the driver says of the GPU itself; *unknown* where it says nothing.

    FAILED is for boards that no reset puts right: they are to be replaced.
    """

    OK = "ok"
    RESET_REQUIRED = "reset-required"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU (or virtual mdev parent) as the last probe saw it.

    ``device`` is its name on the host: a PCI address, or the parent's name under
    ``/sys/class/mdev_bus`` for a virtual parent such as ``mtty``. None means *unknown*.
    ``type_units`` is the number of memory slots a vGPU of each type takes, where it is known;
    ``vf_types`` are the driver's names of what VFs carry by themselves, by type id.
    ``siblings`` are the other functions of its slot that belong to it (HD audio, USB-C).
    ``sriov_total`` is 0 where the function has no SR-IOV; ``vfs`` are the VFs that are on.
    ``mig`` is None where the board has none or the driver did not answer, ``mixed_size`` None
    where the driver has no such mode. ``scheduler`` is the vGPU scheduler's policy
    (``best-effort``, ``equal-share``, ``fixed-share``). ``module_id`` is Fabric Manager's
    physicalId of the GPU. ``name`` is what its driver calls the board (empty: not told).
    ``health`` is unknown with a ``health_detail`` where the driver was asked and did not tell,
    without one where nobody could be asked (vfio-pci, other vendors).
    """

    device: str
    path: str
    model: str
    vendor_device: str = ""
    uuid: str | None = None
    serial: str | None = None
    name: str = ""
    numa_node: int | None = None
    memory_mib: int | None = None
    driver: str | None = None
    iommu_group: int | None = None
    group_devices: tuple[str, ...] = ()
    boot_vga: bool = False
    reset_methods: tuple[str, ...] = ()
    mdev_types: tuple[MdevType, ...] = ()
    type_units: Mapping[str, int] = field(default_factory=dict)
    vf_types: Mapping[str, str] = field(default_factory=dict)
    siblings: tuple[str, ...] = ()
    sriov_total: int = 0
    vfs: tuple[VfFacts, ...] = ()
    mig: MigFacts | None = None
    mixed_size: bool | None = None
    scheduler: str | None = None
    vgpu_capabilities: tuple[str, ...] = ()
    ecc: bool | None = None
    module_id: int | None = None
    fabric_state: str | None = None
    nvlinks: int | None = None
    health: GpuHealth = GpuHealth.UNKNOWN
    health_detail: str = ""

    @property
    def unfit(self) -> bool:
        """Does anything speak against its health? That nobody could be asked does not."""
        asked = self.health is GpuHealth.UNKNOWN and self.health_detail
        return bool(asked) or self.health not in {GpuHealth.OK, GpuHealth.UNKNOWN}

    @property
    def address(self) -> PciAddress | None:
        """The PCI address, or None for a virtual parent."""
        try:
            return PciAddress.parse(self.device)
        except ValueError:
            return None
