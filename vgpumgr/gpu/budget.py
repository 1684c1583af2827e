"""How many memory slots a GPU has, and how many each mdev type takes.

A board of the catalogue is counted in its slots, whether its vGPUs are made on the physical
function or on VFs; a GPU that gives plain VFs (AMD, Intel) in VFs. Any other parent shares one
budget among its types (the kernel's mbochs and mtty do, and so does Intel's GVT-g); the budget is
learned from ``available_instances`` while the parent is empty, and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.gpu.mdev import types
from vgpumgr.model.gpu import GpuFacts, MdevType


def with_budget(gpu: GpuFacts, known: Mapping[str, int], *, empty: bool) -> GpuFacts:
    """The facts with ``type_units`` filled in from the catalogue, the past, or an empty parent.

    ``known`` are the type sizes learned earlier. A parent outside the catalogue that was never
    seen empty keeps no sizes: nothing can be offered on it yet.
    """
    board = catalog.board(gpu.model)
    if board is not None:
        sizes = {
            known_type.profile: catalog.allocation_units(board, known_type)
            for known_type in board.types
        }
        units = {each.type_id: sizes[each.profile] for each in types(gpu) if each.profile in sizes}
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
    if catalog.sriov_board(gpu.model) is not None:
        return max(1, len(gpu.vfs))
    if not empty:
        return 1
    return max(1, *(each.available or 0 for each in gpu.mdev_types), 0)


def _learned(types: Iterable[MdevType]) -> dict[str, int]:
    """Sizes in units of the smallest type: mbochs 64/16/4 free → 1, 4, 16 units."""
    free = {each.type_id: each.available for each in types if each.available}
    most = max(free.values(), default=0)
    return {type_id: most // count for type_id, count in free.items() if count}
