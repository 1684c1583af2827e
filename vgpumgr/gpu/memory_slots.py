"""Memory slots and MIG slices of a GPU, and how many each profile takes.

A board of the catalogue is counted in its slots, whether its vGPUs are made on the physical
function or on VFs; a GPU that gives plain VFs (AMD, Intel) in VFs. Any other parent shares one
budget among its types (the kernel's mbochs and mtty do, and so does Intel's GVT-g): the number
of the smallest type that it could make when empty, learned from the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.gpu import reported_mig, uncatalogued
from vgpumgr.gpu.mdev_framework import types
from vgpumgr.model.gpu import GpuFacts, MdevType


def slice_slots(gpu: GpuFacts, start: int, size: int) -> tuple[int, ...]:
    """The slots under its memory slices [start, start + size); none where nothing is offered there.

    ValueError for slices that a board of the catalogue does not have.
    """
    board = catalog.board(gpu.model)
    if board is None:
        return reported_mig.slice_slots(gpu, start, size)
    return catalog.slice_slots(board, start, size)


def compute_slices(gpu: GpuFacts) -> int:
    """Compute slices of the whole GPU; 0 while MIG mode is off, and where they are not known."""
    if gpu.mig is None or not gpu.mig.enabled:
        return 0
    board = catalog.board(gpu.model)
    if board is None:
        return reported_mig.gpu_slices(gpu)
    known = catalog.mig(board)
    return known.gpu_slices if known else 0


def slices_and_media(gpu: GpuFacts, name: str, number: int) -> tuple[int, bool]:
    """Of a GPU-instance profile, by its name and the driver's number: how many compute slices it
    takes, and whether it has the media engines.
    """
    board = catalog.board(gpu.model)
    if board is None:
        told = reported_mig.profile(gpu, number)
        return (told.gpu_slices, reported_mig.has_media(told)) if told else (0, False)
    known = catalog.gi_profile(board, name)
    return (known.gpu_slices, known.media) if known else (0, False)


def with_budget(gpu: GpuFacts, before: GpuFacts | None, *, empty: bool) -> GpuFacts:
    """The facts with ``type_units`` filled in from the catalogue, the past, or an empty GPU.

    ``before`` is how the same GPU was seen last. One outside the catalogue that was never seen
    empty keeps no sizes: nothing can be offered on it yet.
    """
    board = catalog.board(gpu.model)
    if board is not None:
        return replace(gpu, type_units=_of_board(gpu, board))
    told = uncatalogued.complete_types(gpu) or (before.vf_types if before else {})
    gpu = replace(gpu, vf_types=told)
    known = before.type_units if before else {}
    if told:
        units = {each.type_id: each.gib for each in uncatalogued.vf_types(gpu)}
    elif known:
        units = dict(known)
    else:
        units = _learned(gpu.mdev_types) if empty else {}
    return replace(gpu, type_units=units)


def slots(gpu: GpuFacts, *, empty: bool) -> int:
    """The number of memory slots an allocation can take from the GPU: at least 1."""
    board = catalog.board(gpu.model)
    if board is not None:
        return max(1, catalog.slots(board))
    if catalog.sriov_board(gpu.model) is not None or uncatalogued.plain_profile(gpu):
        return max(1, len(gpu.vfs))
    if gpu.vf_types or reported_mig.types(gpu):
        return reported_mig.slots(gpu)
    if not empty:
        return 1
    return max(1, *(each.available or 0 for each in gpu.mdev_types), 0)


def _of_board(gpu: GpuFacts, board: catalog.Board) -> dict[str, int]:
    sizes = {each.profile: catalog.allocation_units(board, each) for each in board.types}
    return {each.type_id: sizes[each.profile] for each in types(gpu) if each.profile in sizes}


def _learned(types: Iterable[MdevType]) -> dict[str, int]:
    """Sizes in units of the smallest type: mbochs 64/16/4 free → 1, 4, 16 units."""
    free = {each.type_id: each.available for each in types if each.available}
    most = max(free.values(), default=0)
    return {type_id: most // count for type_id, count in free.items() if count}
