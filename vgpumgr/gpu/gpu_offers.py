"""What a GPU has to give: its slots, the offers of every framework, and those of another layout.

A board of the catalogue is counted in its slots, whether its vGPUs are made on the physical
function or on VFs; a GPU that gives plain VFs (AMD, Intel) in VFs. Any other parent shares one
budget among its types (the kernel's mbochs and mtty do, and so does Intel's GVT-g): the number
of the smallest type that it could make when empty, learned from the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.catalog import Board, SriovBoard
from vgpumgr.gpu import uncatalogued
from vgpumgr.gpu.catalogued_vgpus import whole_instance_name
from vgpumgr.gpu.gpu_framework import GpuFramework
from vgpumgr.gpu.pci_frameworks import PassthroughFramework, PciVfFramework
from vgpumgr.gpu.vgpu_frameworks import MdevFramework, VfioVfFramework, types
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType
from vgpumgr.model.supply import Offer

_FRAMEWORKS: dict[Framework, GpuFramework] = {
    Framework.MDEV: MdevFramework(),
    Framework.VFIO_VF: VfioVfFramework(),
    Framework.PCI_VF: PciVfFramework(),
    Framework.PASSTHROUGH: PassthroughFramework(),
}


def framework(name: str) -> GpuFramework:
    """The framework of that name; ValueError for an unknown one."""
    return _FRAMEWORKS[Framework(name)]


def offers(gpu: GpuFacts) -> tuple[Offer, ...]:
    """Everything a GPU can make, through every framework."""
    return tuple(offer for each in _FRAMEWORKS.values() for offer in each.offers(gpu))


def slice_slots(gpu: GpuFacts, start: int, size: int) -> tuple[int, ...]:
    """The slots under its memory slices [start, start + size); none where nothing is offered there.

    ValueError for slices that a board of the catalogue does not have.
    """
    board = catalog.board(gpu.model)
    if board is None:
        return uncatalogued.slice_slots(gpu, start, size)
    return catalog.slice_slots(board, start, size)


def compute_slices(gpu: GpuFacts) -> int:
    """Compute slices of the whole GPU; 0 while MIG mode is off, and where they are not known."""
    if gpu.mig is None or not gpu.mig.enabled:
        return 0
    board = catalog.board(gpu.model)
    if board is None:
        return uncatalogued.gpu_slices(gpu)
    known = catalog.mig(board)
    return known.gpu_slices if known else 0


def slices_and_media(gpu: GpuFacts, name: str, number: int) -> tuple[int, bool]:
    """Of a GPU-instance profile, by its name and the driver's number: how many compute slices it
    takes, and whether it has the media engines.
    """
    board = catalog.board(gpu.model)
    if board is None:
        told = uncatalogued.mig_profile(gpu, number)
        return (told.gpu_slices, uncatalogued.has_media(told)) if told else (0, False)
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
    if gpu.vf_types or uncatalogued.mig_types(gpu):
        return uncatalogued.slots(gpu)
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
        yield from ((name, "mig: true, vfs: max") for name in uncatalogued.mig_names(gpu))


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
