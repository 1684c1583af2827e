"""Placement ids: where the driver puts a vGPU in the frame buffer, by its own rules.

All ids and sizes are GiB in the board's region. Source of every rule here: kernel_vgpu_mgr.c of
NVIDIA's open kernel modules 595.45.04, which reproduces the placement tables of the NVIDIA AI
Enterprise 5.0 User Guide, appendix B (``placement_rules`` of vgpu_types.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.catalog.mig import mig_types
from vgpumgr.catalog.tables import table
from vgpumgr.catalog.values import Board, VgpuType

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
