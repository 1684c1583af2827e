"""Boards and their vGPU types, by key and PCI id, and driver reports that contradict them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, final

from vgpumgr.catalog.shipped_tables import sources, table
from vgpumgr.model.domain import Screen
from vgpumgr.model.gpu import GpuFacts, profile_name


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


MIB_PER_GIB = 1024
_BEFORE_FRACTIONAL = frozenset({"maxwell", "pascal"})
_NOMINAL_GIB = re.compile(r"-(\d+)[ABCQ]")
# GPUs made for an NVSwitch board, by the start of the board's key, after ``applies_to`` of
# fabric_partitions.yaml. Sixteen A100s share HGX-A100-16, whose ids hold on eight too.
_MADE_FOR = (
    ("A100-SXM4-", "HGX-A100-8"),
    ("H100-SXM5-", "HGX-H100-8"),
    ("H200-SXM5-", "HGX-H100-8"),
    ("H20-", "HGX-H100-8"),
    ("B200", "HGX-B200-8"),
    ("B300", "HGX-B200-8"),
)


@cache
def boards() -> tuple[Board, ...]:
    """Every board of the catalogue, in its order."""
    data = table("gpus")
    vgpu = {row["board"]: row for row in table("vgpu_types")["boards"]}
    offset = data["vf_layout"]["first_offset"]
    return tuple(_board(row, vgpu.get(row["key"], {}), offset) for row in data["gpus"])


def board(key: str) -> Board | None:
    """The board of this key (``T4``, ``H100-SXM5-80GB``)."""
    return _by_key().get(key)


def board_by_pci(vendor_device: str, subsystem: str | None = None) -> Board | None:
    """The board with PCI ids like ``10de:1eb8`` and ``10de:12a2``.

    None where no board has them, and where only a subsystem id that is missing or not listed
    could tell which of several boards it is.
    """
    found = [each for each in boards() if each.vendor_device == vendor_device.lower()]
    if len(found) == 1 and not found[0].variants:
        return found[0]
    listed = [each for each in found if subsystem and subsystem.lower() in each.subsystems]
    return listed[0] if len(listed) == 1 else None


@cache
def screen_limits(profile: str) -> tuple[Screen, ...]:
    """One for each board with a type of that name of which heads and resolution are known."""
    return tuple(
        Screen(heads=each.heads, width=int(width), height=int(height))
        for board in boards()
        for each in board.types
        if each.profile == profile and each.heads and each.resolution
        for width, _, height in [each.resolution.partition("x")]
    )


@cache
def board_watts(key: str) -> int | None:
    """The power of a board by its key, in watts; None where it is not known."""
    rows: list[dict[str, Any]] = table("gpus")["gpus"]
    found = next((each.get("board_power_w") for each in rows if each["key"] == key), None)
    return int(found) if found else None


@cache
def _by_key() -> dict[str, Board]:
    return {each.key: each for each in boards()}


def _board(row: dict[str, Any], vgpu: dict[str, Any], vf_offset: int) -> Board:
    mmio_gib, total_vfs = row["mmio_space_gib"], row["sriov_total_vfs"]
    return Board(
        key=row["key"],
        name=row["name"],
        vendor_device=f"{row['pci_vendor']}:{row['pci_device']}",
        subsystems=tuple(row["pci_subsystems"]),
        arch=row["arch"],
        memory_gib=row["memory_gib"],
        gpus_per_board=row["gpus_per_board"],
        host_mode=row["vgpu_host_mode"],
        mig_capable=row["mig_capable"],
        mmio64_mib=None if mmio_gib is None else mmio_gib * MIB_PER_GIB,
        mixed_size=vgpu.get("mixed_size", False),
        same_size_ids_reported=vgpu.get("homogeneous_placements", False),
        fractional_multi_vgpu=_fractional(row["arch"]),
        region_gib=vgpu.get("placement_region_gib"),
        sriov_vfs=row.get("total_vfs_min") if total_vfs is None else total_vfs,
        sriov_vfs_verified=row["sriov_total_vfs_verified"],
        vf_offset=row.get("vf_layout", {}).get("first_offset", vf_offset),
        fabric=_fabric_of(row["key"]),
        source=sources("gpus", row["source"]),
        variants=row.get("variants", ""),
        types=tuple(_type(each, row) for each in vgpu.get("types", [])),
    )


def _type(row: dict[str, Any], on: dict[str, Any]) -> VgpuType:
    fb_mib = row["fb_mib"] or _nominal_mib(row["name"])
    max_gpu = row["max_gpu"] or on["memory_gib"] * MIB_PER_GIB // fb_mib
    complete = row["fb_mib"] is not None and row["max_gpu"] is not None
    return VgpuType(
        id=row["id"],
        name=row["name"],
        series=row["series"],
        fb_mib=fb_mib,
        guest_fb_mib=row.get("guest_fb_mib"),
        max_gpu=max_gpu,
        heads=row.get("heads"),
        resolution=row.get("res") or "",
        frl_fps=row.get("frl_fps"),
        multi_vgpu=row.get("multi_vgpu", _multi_vgpu(row, max_gpu, on["arch"])),
        mig=row.get("mig_gi_profile", ""),
        mig_id=row.get("mig_gi_id"),
        max_per_gi=row.get("max_per_gi", 1),
        verified=row["verified"] and complete,
        source=sources("vgpu_types", row["src"]),
        note=row.get("note", ""),
    )


def _fabric_of(board_key: str) -> str:
    """The NVSwitch board that GPUs of this board key are made for; empty where not known.

    Source: ``applies_to`` of the partition tables in the NVIDIA Fabric Manager User Guide.
    """
    return next((key for start, key in _MADE_FOR if board_key.startswith(start)), "")


def _nominal_mib(name: str) -> int:
    """The size that NVIDIA puts in the name, in GiB: ``GB200-1-24C`` → 24576 MiB."""
    match = _NOMINAL_GIB.search(name)
    if match is None:
        raise ValueError(f"no size in the vGPU type name {name!r}")
    return int(match.group(1)) * MIB_PER_GIB


def _fractional(arch: str) -> bool:
    """Since Volta. Source: vgpuConfig.xml and the NVIDIA AI Enterprise 6.x documents."""
    return arch not in _BEFORE_FRACTIONAL


def _multi_vgpu(row: dict[str, Any], max_gpu: int, arch: str) -> bool:
    """Q and C types: any size since Volta, the whole GPU before; MIG-backed ones are not known.

    Source: vgpuConfig.xml (fractionalMultiVgpu) and the NVIDIA AI Enterprise 6.x documents.
    """
    if row["series"] not in "QC" or "mig_gi_profile" in row:
        return False
    return max_gpu == 1 or _fractional(arch)


# Names differ from driver to driver and memory by what is reserved, so only what no driver would
# say of that board speaks against it.


_WORD = re.compile(r"[A-Z0-9]+")
# T4, V100S, GB200, RTX 6000; not 80GB, SXM5, HBM3.
_MODEL = re.compile(r"(?!SXM|HBM)[A-Z]{1,3}\d{1,4}[A-Z]?|\d{4}")
# Of a board's nominal memory ECC takes a sixteenth, and the driver some per cent more. Sizes of one
# model differ by a third or more. Wide on purpose: a false alarm is worse than a lie unseen.
_CAPACITY, _MOST = 0.75, 1.25


def contradiction(gpu: GpuFacts) -> str:
    """What of the name and memory that NVML tells cannot be this board's; empty: nothing.

    A name that mentions no model of the catalogue says nothing, and neither does no memory.
    """
    found = board(gpu.model)
    if found is None:
        return ""
    if _names_another(found, gpu.name):
        return f"its driver calls it {gpu.name}, its PCI id is that of {found.name}"
    nominal = found.memory_gib * MIB_PER_GIB
    if gpu.memory_mib and not _CAPACITY * nominal <= gpu.memory_mib <= _MOST * nominal:
        shown = f"its driver shows {gpu.memory_mib} MiB of memory"
        return f"{shown}, its PCI id is that of {found.name} with {found.memory_gib} GiB"
    return ""


def _names_another(found: Board, name: str) -> bool:
    told = _models(name) & _known()
    return bool(told) and not any(_kin(one, own) for one in told for own in _models(found.name))


def _kin(one: str, other: str) -> bool:
    """The same model, or a variant of it: V100 and V100S."""
    return one.startswith(other) or other.startswith(one)


def _models(name: str) -> set[str]:
    return {word for word in _WORD.findall(name.upper()) if _MODEL.fullmatch(word)}


@cache
def _known() -> frozenset[str]:
    return frozenset(word for each in boards() for word in _models(each.name))
