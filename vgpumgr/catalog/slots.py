"""Memory slots: what a vGPU takes from its GPU in the ledger."""

from __future__ import annotations

from functools import cache

from vgpumgr.catalog.mig import gi_profile, mig
from vgpumgr.catalog.values import Board, VgpuType

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
