"""Memory slots: what a time-sliced vGPU takes from its GPU in the ledger."""

from __future__ import annotations

from vgpumgr.catalog.values import Board, VgpuType

SLOT_MIB = 1024


def slot_mib(board: Board) -> int:
    """A slot is a GiB, or the board's smallest type where that is less."""
    return min([SLOT_MIB, *(each.fb_mib for each in board.types)])


def slots(board: Board) -> int:
    """How many slots one GPU has; 1 where it can only be given whole."""
    return board.memory_gib * 1024 // slot_mib(board) if board.types else 1


def allocation_units(board: Board, vgpu_type: VgpuType) -> int:
    """Slots that one vGPU of ``vgpu_type`` takes, such that ``max_gpu`` of them always fit.

    Nominal sizes of a few types add up to more than the board's nominal memory (two H200X-3-71C
    of 71 GiB on 141 GiB); there the board's maximum decides.
    """
    return min(-(-vgpu_type.fb_mib // slot_mib(board)), slots(board) // vgpu_type.max_gpu)
