"""Memory slots of vGPUs in the ledger, and their placement ids in the frame buffer.

All ids and sizes are GiB in the board's region. Source of every rule on ids: kernel_vgpu_mgr.c
of NVIDIA's open kernel modules 595.45.04, which reproduces the placement tables of the NVIDIA
AI Enterprise 5.0 User Guide, appendix B (``placement_rules`` in ``source/gpus.yaml``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from vgpumgr.catalog.boards import Board, VgpuType
from vgpumgr.catalog.mig_profiles import gi_profile, mig, mig_types
from vgpumgr.catalog.shipped_tables import table

SLOT_MIB = 1024


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


MIB_PER_GIB = 1024
_DEEPEST = 16
_DENIED_ON = {"ampere": "deny_1gib_full_fb_48gib_ampere", "ada": "deny_1gib_full_fb_48gib_ada"}


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
