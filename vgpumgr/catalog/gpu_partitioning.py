"""How a GPU is divided: MIG instances on its memory grid, slots and placement ids of its vGPUs.

Slots are what the ledger counts. Placement ids and their sizes are GiB in the board's region.
Source of every rule on ids: kernel_vgpu_mgr.c of NVIDIA's open kernel modules 595.45.04, which
reproduces the placement tables of the NVIDIA AI Enterprise 5.0 User Guide, appendix B
(``placement_rules`` in ``source/gpus.yaml``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, final

from vgpumgr.catalog.boards import Board, VgpuType
from vgpumgr.catalog.shipped_tables import sources, table

MIB_PER_GIB = 1024
SLOT_MIB = 1024
# "1 slice rev1": the only compute instance of a 1g GPU instance with two memory slices.
_REV1 = 7
_MEDIA = frozenset({"+me", "+me.all"})
_GRAPHICS = "+gfx"
_DEEPEST = 16
_DENIED_ON = {"ampere": "deny_1gib_full_fb_48gib_ampere", "ada": "deny_1gib_full_fb_48gib_ada"}


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


@cache
def slot_mib(board: Board) -> int:
    """A slot is a GiB, or the board's smallest type where that is less."""
    return min([SLOT_MIB, *(each.fb_mib for each in board.types)])


@cache
def slots(board: Board) -> int:
    """How many slots one GPU has; 1 where it can only be given whole."""
    return board.memory_gib * 1024 // slot_mib(board) if board.types else 1


@cache
def allocation_units(board: Board, vgpu_type: VgpuType) -> int:
    """Slots that one vGPU of ``vgpu_type`` takes, such that ``max_gpu`` of them always fit.

    Nominal sizes of a few types add up to more than the board's nominal memory (two H200X-3-71C
    of 71 GiB on 141 GiB); there the board's maximum decides. A MIG-backed one takes no more than
    its share of the GPU instance, wherever that lies.
    """
    fits = slots(board) // vgpu_type.max_gpu
    return min(-(-vgpu_type.fb_mib // slot_mib(board)), fits, *_instance_share(board, vgpu_type))


@cache
def slice_slots(board: Board, start: int, size: int) -> tuple[int, ...]:
    """The slots under the MIG slices [start, start + size) of the board's memory grid.

    Slice k covers slots ⌊k·slots/grid⌋ to ⌊(k+1)·slots/grid⌋ - 1. ValueError for a board without
    MIG and for slices outside its grid.
    """
    known = mig(board)
    if known is None or not 0 <= start < start + size <= known.grid:
        raise ValueError(f"{board.key} has no MIG slices {start} to {start + size - 1}")
    total = slots(board)
    return tuple(range(start * total // known.grid, (start + size) * total // known.grid))


def placement_slots(board: Board, at: int, size: int) -> tuple[int, ...]:
    """The slots under a placement of ``size`` GiB at placement id ``at``."""
    each = SLOT_MIB // slot_mib(board)
    return tuple(range(at * each, min((at + size) * each, slots(board))))


def _instance_share(board: Board, vgpu_type: VgpuType) -> list[int]:
    profile = gi_profile(board, vgpu_type.mig) if vgpu_type.mig else None
    if profile is None:
        return []
    under = (len(slice_slots(board, start, profile.size)) for start in profile.starts)
    return [min(under) // vgpu_type.max_per_gi]


def placement_size(board: Board, vgpu_type: VgpuType) -> int:
    """GiB that one vGPU takes from its placement id on.

    The nominal size; 3 for a 2 GiB type in a region of 96 GiB; 0 for a MIG-backed type where a
    GPU instance carries one vGPU only, so that there is no placement id.
    """
    if vgpu_type.mig:
        return _nominal_gib(vgpu_type) if _shares_instance(vgpu_type) else 0
    if board.region_gib == 96 and _nominal_gib(vgpu_type) == 2:
        return 3
    return _nominal_gib(vgpu_type)


def mixed_ids(board: Board, vgpu_type: VgpuType) -> tuple[int, ...]:
    """The ids a time-sliced type may have in mixed-size mode; none without that mode.

    Ascending, which is also the order in which the driver tries them. vGPUs exclude each other by
    overlap alone: the type's ``max_gpu`` is not asked.
    """
    if vgpu_type.mig or not board.mixed_size or board.region_gib is None:
        return ()
    if board.arch == "blackwell":
        return _spread(board.region_gib, vgpu_type.max_gpu)
    size = placement_size(board, vgpu_type)
    found = _halved(0, board.region_gib, size, vgpu_type.max_gpu, partitions=1, left=True)
    denied = _denied(board, vgpu_type)
    return tuple(each for each in found if each not in denied)


def same_size_ids(board: Board, vgpu_type: VgpuType) -> tuple[int, ...] | None:
    """The ids of a time-sliced type in same-size mode; None where the driver reports none.

    Ada and Hopper count in steps of the size, Blackwell spreads as in mixed-size mode.
    """
    if vgpu_type.mig or not board.same_size_ids_reported or board.region_gib is None:
        return None
    if board.arch == "blackwell":
        return _spread(board.region_gib, vgpu_type.max_gpu)
    size = placement_size(board, vgpu_type)
    return tuple(size * each for each in range(min(vgpu_type.max_gpu, board.region_gib // size)))


def instance_ids(board: Board, vgpu_type: VgpuType) -> tuple[int, ...]:
    """The ids of a MIG-backed type inside its GPU instance; none where it has that to itself.

    They count from the instance's own start, not the GPU's (CubeCOS capture of an RTX PRO 6000).
    """
    if not _shares_instance(vgpu_type):
        return ()
    whole = max(_nominal_gib(each) for each in mig_types(board, vgpu_type.mig))
    return _spread(whole, vgpu_type.max_per_gi)


def _nominal_gib(vgpu_type: VgpuType) -> int:
    return vgpu_type.fb_mib // MIB_PER_GIB


def _shares_instance(vgpu_type: VgpuType) -> bool:
    """MIG instances are time-sliced from GB20x on, whose vGPUs lie on ``+gfx`` profiles."""
    return vgpu_type.mig.endswith("+gfx")


def _spread(region: int, most: int) -> tuple[int, ...]:
    return tuple(region * each // most for each in range(most))


def _halved(
    start: int, end: int, size: int, most: int, *, partitions: int, left: bool
) -> Iterator[int]:
    """Ids in [start, end), one of ``partitions`` equal parts and its parent's left or right."""
    if 2 * partitions == most:
        yield start
        yield end - size
    elif partitions == 1 << (most.bit_length() - 1):
        yield start if left else end - size
    elif partitions < _DEEPEST:
        middle = (start + end) // 2
        yield from _halved(start, middle, size, most, partitions=2 * partitions, left=True)
        yield from _halved(middle, end, size, most, partitions=2 * partitions, left=False)


def _denied(board: Board, vgpu_type: VgpuType) -> frozenset[int]:
    """Ids that 1 GiB types lose on 48 GiB.

    Such a guest gets its full GiB there, whatever vgpuConfig.xml says, and would overlap a
    larger neighbour.
    """
    if board.region_gib != 48 or _nominal_gib(vgpu_type) != 1 or board.arch not in _DENIED_ON:
        return frozenset()
    return frozenset(table("vgpu_types")["placement_rules"][_DENIED_ON[board.arch]])
