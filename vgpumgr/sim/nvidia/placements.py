"""Placement ids: where vGPUs lie in a region of frame buffer (the GPU's, or a GPU instance's)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.sim.nvidia.vgpu import Vgpu


def supported(board: Board, wanted: VgpuType, *, mixed: bool) -> tuple[int, ...]:
    """All ids the driver knows for the type in that mode; none where it reports none."""
    if wanted.mig:
        return catalog.instance_ids(board, wanted)
    if mixed:
        return catalog.mixed_ids(board, wanted)
    return catalog.same_size_ids(board, wanted) or ()


def creatable(
    board: Board, wanted: VgpuType, ids: Sequence[int], neighbours: Iterable[Vgpu]
) -> tuple[int, ...]:
    """Those of ``ids`` where the type lies on none of its neighbours."""
    size = catalog.placement_size(board, wanted)
    taken = [
        (each.placement_id, each.placement_id + catalog.placement_size(board, each.type))
        for each in neighbours
        if each.placement_id is not None
    ]
    return tuple(
        id_ for id_ in ids if all(id_ + size <= start or id_ >= end for start, end in taken)
    )
