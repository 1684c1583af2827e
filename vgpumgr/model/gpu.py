"""GPUs: facts of vGPU types, virtual functions and MIG instances, and the ledger's record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from vgpumgr.model.formats import PciAddress
from vgpumgr.model.health import (
    NO_EVIDENCE,
    NO_READINGS,
    GpuReadings,
    HealthRecord,
    HealthState,
)

# ``-10C``, ``-5CME``: the first letter after the size is the series.
_SERIES = re.compile(r"-\d+([A-Z])[A-Z]*\d*$", re.ASCII)
# Instances with graphics carry vGPUs for displays.
_GRAPHICS = "+gfx"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstance:
    """A compute instance; ``profile_id`` as ``nvidia-smi mig -lcip`` prints it."""

    id: int
    profile_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """A MIG GPU instance. ``start`` and ``size`` are slices of the board's memory grid."""

    id: int
    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[ComputeInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A GPU-instance profile as the driver lists it: ``starts`` are its possible placements.

    ``remaining`` is how many more the driver says it would make; None = it did not say.
    """

    name: str
    profile_id: int
    gpu_slices: int
    size: int
    starts: tuple[int, ...]
    remaining: int | None = None

    @property
    def graphics(self) -> bool:
        """Are its instances for graphics?"""
        return _GRAPHICS in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MigType:
    """A vGPU type that lies in GPU instances of one profile, as the driver tells it.

    ``type_id`` is the driver's number of it, ``profile`` its name without GRID or NVIDIA;
    ``profile_id`` is the GPU-instance profile's. At most ``per_instance`` of it lie in one
    instance, and at most ``per_vm`` are of one VM.
    """

    type_id: str
    profile: str
    profile_id: int
    memory_mib: int
    per_instance: int = 1
    per_vm: int = 1

    @property
    def series(self) -> str:
        """``C`` of ``H100-1-10CME``; empty for a name without."""
        found = _SERIES.search(self.profile)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigFacts:
    """MIG of a capable GPU. ``pending`` differs from ``enabled`` while a reset is due.

    ``instances`` None: they could not be read, so nothing may be concluded from their absence.
    ``types`` are the MIG-backed vGPU types of a board that the catalogue does not hold; None
    where the catalogue has them, or the driver does not tell in which profile each lies.
    """

    enabled: bool
    pending: bool
    profiles: tuple[MigProfile, ...] = ()
    instances: tuple[GpuInstance, ...] | None = ()
    types: tuple[MigType, ...] | None = None

    def alone_in(self, profile: MigProfile) -> MigType | None:
        """Of ``types`` the one that the profile's name means: it has the GPU instance to itself.

        The C type, the Q type where instances are for graphics, as on the catalogue's boards.
        """
        series = "Q" if profile.graphics else "C"
        inside = [each for each in self.types or () if each.profile_id == profile.profile_id]
        alone = (each for each in inside if each.per_instance == 1 and each.series == series)
        return next(alone, None)


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
class PowerFacts:
    """The enforced power limit of a GPU, its board's default and bounds, in watts; and the range in
    MHz to which we locked its clocks, () for none.
    """

    limit_w: int
    default_w: int
    least_w: int
    most_w: int
    locked_clocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU (or virtual mdev parent) as the last probe saw it.

    ``device`` is its name on the host: a PCI address, or the parent's name under
    ``/sys/class/mdev_bus`` for a virtual parent such as ``mtty``. None means *unknown*.
    ``type_units`` is the number of memory slots a vGPU of each type takes, where it is known;
    ``vf_types`` are the driver's names of what VFs carry by themselves, by type id.
    ``siblings`` are the other functions of its slot that belong to it (HD audio, USB-C).
    ``sriov_total`` is 0 where the function has no SR-IOV; ``vfs`` are the VFs that are on.
    ``vf_offset`` and ``vf_stride`` say where they are, or would be, in routing ids from its own.
    ``mig`` is None where the board has none or the driver did not answer, ``mixed_size`` None
    where the driver has no such mode. ``scheduler`` is the vGPU scheduler's policy
    (``best-effort``, ``equal-share``, ``fixed-share``), ``scheduler_timing`` its time slice or
    frequency as in ``model.layout``, () where it is the driver's own. ``module_id`` is
    Fabric Manager's physicalId of the GPU. ``name`` is what its driver calls the board (empty: not
    told).
    ``health`` is unknown with a ``health_detail`` where the driver was asked and did not tell,
    without one where no driver could be asked (vfio-pci, other vendors). ``readings`` are what else
    may speak against it. ``power`` is None where the driver tells of no limit.
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
    vf_offset: int | None = None
    vf_stride: int | None = None
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
    readings: GpuReadings = NO_READINGS
    power: PowerFacts | None = None
    scheduler_timing: tuple[int, ...] | None = None

    @property
    def unfit(self) -> bool:
        """Does anything speak against its health? That nobody could be asked does not."""
        asked = self.health is GpuHealth.UNKNOWN and self.health_detail
        return bool(asked) or self.health not in {GpuHealth.OK, GpuHealth.UNKNOWN}

    def vf_address(self, number: int) -> str:
        """Where its VF of that number is, or would be if it were on (PCI SR-IOV, routing ids);
        empty where that is not known.
        """
        pf = self.address
        if pf is None or self.vf_offset is None or self.vf_stride is None:
            return next((vf.address for vf in self.vfs if vf.number == number), "")
        own = pf.bus << 8 | pf.slot << 3 | pf.function
        bus, at = divmod(own + self.vf_offset + number * self.vf_stride, 1 << 8)
        return str(PciAddress(pf.domain, bus, at >> 3, at & 7)) if bus < 1 << 8 else ""

    @property
    def address(self) -> PciAddress | None:
        """The PCI address, or None for a virtual parent."""
        try:
            return PciAddress.parse(self.device)
        except ValueError:
            return None


def with_power(gpu: GpuFacts, **changes: Any) -> GpuFacts:
    """The facts with other power facts, where the GPU has any."""
    return gpu if gpu.power is None else replace(gpu, power=replace(gpu.power, **changes))


class GpuState(StrEnum):
    """What the ledger thinks of a GPU."""

    HEALTHY = "healthy"
    QUARANTINED = "quarantined"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """A GPU in the ledger: our own key, the evidence it was recognised by, its last facts.

    ``units`` is the number of memory slots an allocation can take from it (1 where the GPU can
    only be given whole). ``state_why`` is why it is quarantined: by request, or for what it
    refused. ``health`` is what its readings and Xids say.
    """

    id: str
    host: str
    facts: GpuFacts
    units: int
    state: GpuState = GpuState.HEALTHY
    generation: int = 0
    state_why: str = ""
    health: HealthRecord = NO_EVIDENCE

    @property
    def condition(self) -> HealthState:
        """Its health by all that is known; *lost* where its host shows it no more."""
        return HealthState.LOST if self.state is GpuState.MISSING else self.health.state

    def is_called(self, name: str) -> bool:
        """Whether ``name`` is its id, the beginning of it, or HOST/DEVICE."""
        return self.id.startswith(name) or name == f"{self.host}/{self.facts.device}"
