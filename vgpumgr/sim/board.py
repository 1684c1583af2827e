"""What the simulated boards are: catalogue facts in the shape the simulated kernel needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from vgpumgr import catalog
from vgpumgr.catalog.tables import table
from vgpumgr.model.errors import UsageError

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuType:
    """One mdev type of a parent.

    ``size`` is what it takes of the parent's budget (MiB of framebuffer, or whatever a sample
    driver counts), ``most`` how many the parent may carry. ``description`` None = no such file.
    """

    id: str
    name: str
    size: int
    most: int
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciBoard:
    """A PCI GPU as the kernel shows it. ``memory_mib`` is what NVML reports."""

    key: str
    name: str
    device: str
    subsystem: str
    memory_mib: int
    pci_class: str
    audio: bool
    sriov_total: int
    types: tuple[VgpuType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParent:
    """One of the kernel's sample drivers: a virtual parent whose types share ``budget``."""

    name: str
    budget: int
    types: tuple[VgpuType, ...]


# Linux samples/vfio-mdev: mbochs.c (256 MB of video memory) and mtty.c (24 ports).
SAMPLES = {
    parent.name: parent
    for parent in (
        SampleParent(
            name="mbochs",
            budget=256,
            types=tuple(
                VgpuType(
                    id=f"mbochs-{name}",
                    name=f"mbochs-{name}",
                    size=size,
                    most=256 // size,
                    description=f"virtual display, {size} MB video memory\n",
                )
                for name, size in (("small", 4), ("medium", 16), ("large", 64))
            ),
        ),
        SampleParent(
            name="mtty",
            budget=24,
            types=(
                VgpuType(id="mtty-1", name="Single port serial", size=1, most=24),
                VgpuType(id="mtty-2", name="Dual port serial", size=2, most=12),
            ),
        ),
    )
}


@cache
def pci_board(key: str) -> PciBoard:
    """The catalogue's board of that key; UsageError where there is none."""
    board = catalog.board(key)
    if board is None:
        raise UsageError(
            f"no board {key!r} to simulate",
            next=f"use a key of the catalogue (T4, H100-SXM5-80GB) or one of {', '.join(SAMPLES)}",
        )
    row = next(each for each in table("gpus")["gpus"] if each["key"] == key)
    has_display = row.get("display_mode_factory") == "display-enabled"
    return PciBoard(
        key=key,
        name=board.name,
        device=board.vendor_device.partition(":")[2],
        subsystem=(board.subsystems or ("10de:0000",))[0],
        memory_mib=row.get("nvidia_smi_fb_mib") or board.memory_gib * MIB_PER_GIB,
        pci_class="030000" if has_display else "030200",
        audio=has_display,
        sriov_total=row["sriov_total_vfs"] or row.get("total_vfs_min") or 0,
        types=_types(key) if board.host_mode == "mdev-on-pf" else (),
    )


def _types(key: str) -> tuple[VgpuType, ...]:
    boards = table("vgpu_types")["boards"]
    rows: list[dict[str, Any]] = next(
        (each["types"] for each in boards if each["board"] == key), []
    )
    return tuple(_type(row) for row in rows if row["id"] is not None)


def _type(row: dict[str, Any]) -> VgpuType:
    return VgpuType(
        id=f"nvidia-{row['id']}",
        name=row["name"],
        size=row["fb_mib"],
        most=row["max_gpu"],
        description=(
            f"num_heads={row['heads']}, frl_config={row['frl_fps']}, "
            f"framebuffer={row['fb_mib']}M, max_resolution={row['res']}, "
            f"max_instance={row['max_gpu']}\n"
        ),
    )
