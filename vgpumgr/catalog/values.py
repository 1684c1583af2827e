"""A board and the vGPU types it can make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from vgpumgr.model.gpu import profile_name


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuType:
    """One vGPU type of a board.

    ``id`` is the driver's number (None = unknown), ``fb_mib`` the nominal frame buffer,
    ``guest_fb_mib`` what the guest sees of it (None = not known), ``max_gpu`` the most instances
    on one GPU at equal size. ``mig`` names the MIG profile behind a MIG-backed type and is empty
    for a time-sliced one; ``mig_id`` is that profile's id, ``max_per_gi`` how many of the type
    share one GPU instance. ``heads``, ``resolution`` (``5120x2880``, empty = not known) and
    ``frl_fps`` are what the driver prints in an mdev's description. ``verified`` False: at least
    one number is confirmed by no primary source, or was worked out because the source lacks it.
    """

    id: int | None
    name: str
    series: str
    fb_mib: int
    guest_fb_mib: int | None
    max_gpu: int
    heads: int | None
    resolution: str
    frl_fps: int | None
    multi_vgpu: bool
    mig: str
    mig_id: int | None
    max_per_gi: int
    verified: bool
    source: str
    note: str

    @property
    def profile(self) -> str:
        """The name users write: ``T4-4Q``."""
        return profile_name(self.name, f"nvidia-{self.id}")

    def __hash__(self) -> int:
        # Look-ups are kept by type; hashing every field each time would cost more than they do.
        return hash(self.name)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU board; the numbers are per physical GPU.

    ``vendor_device`` and ``subsystems`` are PCI ids (``10de:1eb8``). ``host_mode`` says where
    vGPUs are made: ``mdev-on-pf``, ``sriov-vf``, or None where the board makes none.
    ``mmio64_mib`` is the PCI window a guest needs for the whole GPU, None where not known.
    ``variants`` names boards of the same PCI device id that the catalogue does not hold.

    ``mixed_size``: the driver has that mode for it, with placement ids in a region of
    ``region_gib``. ``same_size_ids_reported``: the driver gives placement ids in same-size mode
    too. ``fractional_multi_vgpu``: a VM may have several vGPUs smaller than the GPU.
    ``sriov_vfs`` is SR-IOV's TotalVFs, or, where ``sriov_vfs_verified`` is False, a count that
    it is known to reach (None = nothing known); ``vf_offset`` is the first VF's distance from the
    PF (4: ``00.4``). ``fabric`` is the key of the NVSwitch board that this GPU is made for, empty
    where there is none in the catalogue.
    """

    key: str
    name: str
    vendor_device: str
    subsystems: tuple[str, ...]
    arch: str
    memory_gib: int
    gpus_per_board: int
    host_mode: str | None
    mig_capable: bool
    mmio64_mib: int | None
    mixed_size: bool
    same_size_ids_reported: bool
    fractional_multi_vgpu: bool
    region_gib: int | None
    sriov_vfs: int | None
    sriov_vfs_verified: bool
    vf_offset: int
    fabric: str
    source: str
    variants: str
    types: tuple[VgpuType, ...]

    def __hash__(self) -> int:
        return hash(self.key)
