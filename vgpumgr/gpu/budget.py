"""How many memory slots a GPU has, and how many each mdev type takes.

A board of the catalogue is counted in its slots, whether its vGPUs are made on the physical
function or on VFs; a GPU that gives plain VFs (AMD, Intel) in VFs. Any other parent shares one
budget among its types (the kernel's mbochs and mtty do, and so does Intel's GVT-g); the budget is
learned from ``available_instances`` while the parent is empty, and remembered. Where VFs of such
a GPU carry vGPUs by themselves, the names that they list while it is empty tell the sizes, and the
largest is the whole frame buffer; the sizes of MIG-backed types its driver tells at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.gpu import told_mig, unlisted
from vgpumgr.gpu.mdev import types
from vgpumgr.model.gpu import GpuFacts, MdevType


def with_budget(gpu: GpuFacts, before: GpuFacts | None, *, empty: bool) -> GpuFacts:
    """The facts with ``type_units`` filled in from the catalogue, the past, or an empty GPU.

    ``before`` is how the same GPU was seen last. One outside the catalogue that was never seen
    empty keeps no sizes: nothing can be offered on it yet.
    """
    board = catalog.board(gpu.model)
    if board is not None:
        return replace(gpu, type_units=_of_board(gpu, board))
    told = unlisted.complete_types(gpu) or (before.vf_types if before else {})
    gpu = replace(gpu, vf_types=told)
    known = before.type_units if before else {}
    if told:
        units = {each.type_id: each.gib for each in unlisted.vf_types(gpu)}
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
    if catalog.sriov_board(gpu.model) is not None or unlisted.plain_profile(gpu):
        return max(1, len(gpu.vfs))
    if gpu.vf_types or told_mig.types(gpu):
        return told_mig.slots(gpu)
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
