"""Boards by key and by PCI id."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from vgpumgr.catalog.fabric import fabric_of
from vgpumgr.catalog.tables import sources, table
from vgpumgr.catalog.values import Board, VgpuType

MIB_PER_GIB = 1024
_BEFORE_FRACTIONAL = frozenset({"maxwell", "pascal"})
_NOMINAL_GIB = re.compile(r"-(\d+)[ABCQ]")


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
        fabric=fabric_of(row["key"]),
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
