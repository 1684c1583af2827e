"""Profiles that a GPU could make under another layout, and that layout's lines."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr import catalog
from vgpumgr.catalog import Board, SriovBoard
from vgpumgr.gpu import reported_mig, uncatalogued
from vgpumgr.gpu.vgpu_offers import whole_instance_name
from vgpumgr.model.gpu import GpuFacts


def potential(gpu: GpuFacts) -> dict[str, str]:
    """Profile → lines to add to a Layout (``mig: true, vfs: max``).

    A GPU that left its driver for a guest tells nothing: then there are none. On a same-size GPU
    the types it offers are named as well: beside another size they need ``mixed_size: true``.
    """
    plain = catalog.sriov_board(gpu.model)
    if plain is not None:
        return dict(_plain_vfs(gpu, plain))
    board = catalog.board(gpu.model)
    if board is None:
        return dict(_told(gpu))
    unread = board.mig_capable and gpu.mig is None
    if board.host_mode != "sriov-vf" or unread or gpu.driver != "nvidia":
        return {}
    return {**dict(_time_sliced(gpu, board)), **dict(_mig_backed(gpu, board))}


def _time_sliced(gpu: GpuFacts, board: Board) -> Iterator[tuple[str, str]]:
    mig = gpu.mig is not None and gpu.mig.enabled
    lines = ["mig: false"] if mig else []
    if mig or not gpu.vfs:
        lines.append("vfs: max")
    for each in board.types:
        if each.mig:
            continue
        if lines:
            yield each.profile, ", ".join(lines)
        elif gpu.mixed_size is False and board.mixed_size and catalog.mixed_ids(board, each):
            yield each.profile, "mixed_size: true"
        elif gpu.mixed_size and not catalog.mixed_ids(board, each):
            yield each.profile, "mixed_size: false"


def _mig_backed(gpu: GpuFacts, board: Board) -> Iterator[tuple[str, str]]:
    known = catalog.mig(board)
    if known is None or gpu.mig is None or (gpu.mig.enabled and gpu.vfs):
        return
    for profile in known.profiles:
        for each in catalog.mig_types(board, profile.name):
            yield each.profile, "mig: true, vfs: max"
            if short := whole_instance_name(board, each):
                for name in (short, *profile.earlier):
                    yield name, "mig: true, vfs: max"


def _told(gpu: GpuFacts) -> Iterator[tuple[str, str]]:
    """Outside the catalogue: what the driver told."""
    mig = gpu.mig is not None and gpu.mig.enabled
    if mig or not gpu.vfs:
        for each in uncatalogued.vf_types(gpu):
            yield each.profile, "mig: false, vfs: max" if mig else "vfs: max"
    if not mig or not gpu.vfs:
        yield from ((name, "mig: true, vfs: max") for name in reported_mig.names(gpu))


def _plain_vfs(gpu: GpuFacts, board: SriovBoard) -> Iterator[tuple[str, str]]:
    counts = board.allowed_vf_counts or range(1, gpu.sriov_total + 1)
    for count in counts:
        if count == len(gpu.vfs) or (gpu.sriov_total and count > gpu.sriov_total):
            continue
        yield catalog.vf_profile(board.key, count), _line(board, count)


def _line(board: SriovBoard, count: int) -> str:
    if board.numvfs_writable or not board.driver:
        return f"vfs: {count}"
    return f"vfs: {count}, after `options {board.driver} vf_num={count}` for the host's module"
