"""MIG slices of a GPU: by the catalogue, or by its driver where the catalogue does not hold it."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu import told_mig
from vgpumgr.model.gpu import GpuFacts


def slice_slots(gpu: GpuFacts, start: int, size: int) -> tuple[int, ...]:
    """The slots under its memory slices [start, start + size); none where nothing is offered there.

    ValueError for slices that a board of the catalogue does not have.
    """
    board = catalog.board(gpu.model)
    if board is None:
        return told_mig.slice_slots(gpu, start, size)
    return catalog.slice_slots(board, start, size)


def compute_slices(gpu: GpuFacts) -> int:
    """Compute slices of the whole GPU; 0 while MIG mode is off, and where they are not known."""
    if gpu.mig is None or not gpu.mig.enabled:
        return 0
    board = catalog.board(gpu.model)
    if board is None:
        return told_mig.gpu_slices(gpu)
    known = catalog.mig(board)
    return known.gpu_slices if known else 0


def slices_and_media(gpu: GpuFacts, name: str, number: int) -> tuple[int, bool]:
    """Of a GPU-instance profile, by its name and the driver's number: how many compute slices it
    takes, and whether it has the media engines.
    """
    board = catalog.board(gpu.model)
    if board is None:
        told = told_mig.profile(gpu, number)
        return (told.gpu_slices, told_mig.has_media(told)) if told else (0, False)
    known = catalog.gi_profile(board, name)
    return (known.gpu_slices, known.media) if known else (0, False)
