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
    ``max_gpu`` the most instances on one GPU at equal size. ``mig`` names the MIG profile behind
    a MIG-backed type and is empty for a time-sliced one. ``verified`` False: at least one number
    is confirmed by no primary source, or was worked out because the source lacks it.
    """

    id: int | None
    name: str
    series: str
    fb_mib: int
    max_gpu: int
    multi_vgpu: bool
    mig: str
    verified: bool
    source: str
    note: str

    @property
    def profile(self) -> str:
        """The name users write: ``T4-4Q``."""
        return profile_name(self.name, f"nvidia-{self.id}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU board; the numbers are per physical GPU.

    ``vendor_device`` and ``subsystems`` are PCI ids (``10de:1eb8``). ``host_mode`` says where
    vGPUs are made: ``mdev-on-pf``, ``sriov-vf``, or None where the board makes none.
    ``mmio64_mib`` is the PCI window a guest needs for the whole GPU, None where not known.
    ``variants`` names boards of the same PCI device id that the catalogue does not hold.
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
    source: str
    variants: str
    types: tuple[VgpuType, ...]
