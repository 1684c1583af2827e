"""MIG: the GPU-instance and compute-instance profiles of a board, and their vGPU types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

from vgpumgr.catalog.boards import Board, VgpuType
from vgpumgr.catalog.shipped_tables import sources, table

# "1 slice rev1": the only compute instance of a 1g GPU instance with two memory slices.
_REV1 = 7


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CiProfile:
    """A compute-instance profile inside a GPU instance.

    ``name`` as the driver prints it: ``1c.3g.20gb``, and the GPU instance's own name at full size.
    ``id`` as ``nvidia-smi mig -lcip`` prints it. The slices of all compute instances add up to
    the GPU instance's at most. ``verified`` False: the table of another board is assumed.
    """

    name: str
    id: int
    slices: int
    max_instances: int
    verified: bool


def compute_profiles(row: dict[str, Any], gpu_slices: int, arch: str) -> tuple[CiProfile, ...]:
    """The compute instances of one row of ``gi_profiles`` on a GPU of so many compute slices.

    Sources: nvml.h, ``-lcip`` captures of A100, mig-parted and go-nvml for A100 and A30. Hopper
    is assumed to be as A100, and RTX PRO, which has four slices, as A30.
    """
    known = table("mig_profiles")["ci_profiles"]
    rows = known["per_gi_a30" if gpu_slices == 4 else "per_gi_7_slice_gpus"]
    return tuple(
        CiProfile(
            name=_name(row, each),
            id=_id(row, each, arch),
            slices=each["slices"],
            max_instances=each["max_instances"],
            verified=arch == "ampere",
        )
        for each in rows[f"{row['gpu_slices']}g"]
    )


def _name(row: dict[str, Any], ci: dict[str, Any]) -> str:
    name = str(row["name"])
    return name if ci["slices"] == row["gpu_slices"] else f"{ci['ci']}.{name}"


def _id(row: dict[str, Any], ci: dict[str, Any], arch: str) -> int:
    """Hopper's 1g with two memory slices is the exception. Source: H100 SXM5 capture."""
    if arch == "hopper" and row["gpu_slices"] == 1 and row["mem_slices"] == 2:
        return _REV1
    return int(ci["profile_id"])


_MEDIA = frozenset({"+me", "+me.all"})
_GRAPHICS = "+gfx"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GiProfile:
    """A GPU-instance profile.

    ``id`` is NVML's profile id (``nvidia-smi mig -lgip``). ``size`` and ``starts`` are slices of
    the board's memory grid, ``gpu_slices`` compute slices. ``memory_mib`` is what ``-lgip``
    prints, None = not seen. At most one instance with ``media`` extensions lies on a GPU
    (NVIDIA MIG User Guide); ``graphics`` ones alone carry vGPUs on boards that have them.
    ``earlier`` are names that older drivers and documents of NVIDIA have for it.
    """

    name: str
    earlier: tuple[str, ...]
    id: int
    gpu_slices: int
    size: int
    memory_mib: int | None
    max_instances: int
    starts: tuple[int, ...]
    media: bool
    graphics: bool
    compute: tuple[CiProfile, ...]
    verified: bool
    source: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigBoard:
    """MIG of a board: ``grid`` memory slices, ``gpu_slices`` compute slices, the profiles.

    Instances may not overlap on the grid, and their compute slices add up to ``gpu_slices`` at
    most. ``verified`` False: some profile's id, size or place is assumed.
    """

    key: str
    grid: int
    gpu_slices: int
    profiles: tuple[GiProfile, ...]
    source: str
    verified: bool


def mig(board: Board) -> MigBoard | None:
    """The board's MIG, found by its PCI device id.

    None without MIG, and for boards whose profiles have names only: without ids and placements
    (RTX PRO 4500 and 5000) nothing can be planned. Sources: NVIDIA MIG User Guide, mig-parted and
    captures of ``nvidia-smi mig -lgip`` and ``-lgipp``, as each profile says.
    """
    return _mig(board.vendor_device.partition(":")[2], board.arch) if board.mig_capable else None


def gi_profile(board: Board, name: str) -> GiProfile | None:
    """The board's GPU-instance profile of this name (``3g.40gb``), or that had it earlier."""
    known = mig(board)
    named = (each for each in known.profiles if name in (each.name, *each.earlier)) if known else ()
    return next(iter(named), None)


def name_today(board: Board, name: str) -> str:
    """``3g.95gb`` of a GB200 → ``3g.93gb``, ``1c.3g.95gb`` → ``1c.3g.93gb``; any other as it is."""
    inside, within, profile = name.rpartition("c.")
    known = gi_profile(board, profile)
    return f"{inside}{within}{known.name}" if known else name


def mig_types(board: Board, gi_profile_name: str) -> tuple[VgpuType, ...]:
    """The MIG-backed types in such a GPU instance, C-series first; RTX PRO: only on ``+gfx``.

    Source: partition flags in g_vgpu_resman_specific.h of the open kernel modules; vGPUs on
    ``+gfx`` alone: a host's ``nvidia-smi vgpu -s -v`` (driver 580.105.06).
    """
    found = [each for each in board.types if each.mig and each.mig == gi_profile_name]
    return tuple(sorted(found, key=lambda each: each.series != "C"))


def whole_instance_type(board: Board, gi_profile_name: str) -> VgpuType | None:
    """The type that a MIG profile's name means: it has the GPU instance to itself.

    The C type where there is but one, the Q type on ``+gfx`` profiles; None where none is known.
    """
    series = "Q" if gi_profile_name.endswith(_GRAPHICS) else "C"
    found = [each for each in mig_types(board, gi_profile_name) if each.series == series]
    return next((each for each in found if each.max_per_gi == 1), None)


@cache
def _mig(device: str, arch: str) -> MigBoard | None:
    row = _rows().get(device)
    plannable = [each for each in row["gi_profiles"] if _plannable(each)] if row else []
    if row is None or not plannable:
        return None
    keys = dict.fromkeys(each["source"] for each in plannable)
    return MigBoard(
        key=row["gpu"],
        grid=row["memory_grid"],
        gpu_slices=row["gpu_slices_total"],
        profiles=tuple(_profile(each, row["gpu_slices_total"], arch) for each in plannable),
        source="; ".join(sources("mig_profiles", each) for each in keys),
        verified=all(each["verified"] for each in plannable),
    )


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {device: row for row in table("mig_profiles")["gpus"] for device in row["pci_devices"]}


def _plannable(row: dict[str, Any]) -> bool:
    return row["profile_id"] is not None and bool(row["placements"])


def _profile(row: dict[str, Any], gpu_slices_total: int, arch: str) -> GiProfile:
    return GiProfile(
        name=row["name"],
        earlier=tuple(row.get("earlier", ())),
        id=row["profile_id"],
        gpu_slices=row["gpu_slices"],
        size=row["placements"][0]["size"],
        memory_mib=row["memory_mib"],
        max_instances=row["max_instances"],
        starts=tuple(each["start"] for each in row["placements"]),
        media=not _MEDIA.isdisjoint(row["attributes"]),
        graphics=_GRAPHICS in row["attributes"],
        compute=compute_profiles(row, gpu_slices_total, arch),
        verified=row["verified"],
        source=sources("mig_profiles", row["source"]),
    )
