"""Offers of NVIDIA vGPUs on boards of the catalogue, whichever framework makes them.

A GPU offers only what its present partitioning can make: MIG-backed types with MIG mode on,
time-sliced ones without. Whoever asks passes ``ids``, the types that the driver knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr import catalog
from vgpumgr.catalog import Board, GiProfile, VgpuType
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.supply import InstanceOffer, Offer, SlotStart


def offers(gpu: GpuFacts, board: Board, through: Framework, ids: Mapping[str, str]) -> list[Offer]:
    """Offers of the types in ``ids`` (profile → type id); none where the MIG mode is not known."""
    if gpu.mig is None and catalog.mig(board) is not None:
        return []
    if gpu.mig is not None and gpu.mig.enabled:
        return list(_mig_backed(gpu, board, through, ids))
    types = [each for each in board.types if not each.mig and each.profile in ids]
    found = (_time_sliced(gpu, board, each, through, ids[each.profile]) for each in types)
    return [offer for offer in found if offer is not None]


def most_per_vm(vgpu_type: VgpuType) -> int:
    """How many vGPUs one VM may have, when one of them is of this type."""
    return catalog.limits().per_vm if vgpu_type.multi_vgpu else 1


def whole_instance_name(board: Board, vgpu_type: VgpuType) -> str:
    """The MIG profile that stands for this type: it has the GPU instance to itself; or empty."""
    whole = catalog.whole_instance_type(board, vgpu_type.mig) if vgpu_type.mig else None
    return vgpu_type.mig if whole == vgpu_type else ""


def _time_sliced(
    gpu: GpuFacts, board: Board, each: VgpuType, through: Framework, type_id: str
) -> Offer | None:
    """In mixed-size mode a vGPU lies at one of its placement ids only; None where it has none."""
    mixed = gpu.mixed_size is True
    starts = _placements(board, each) if mixed else ()
    if mixed and not starts:
        return None
    units = catalog.allocation_units(board, each)
    return Offer(
        profile=each.profile,
        framework=through,
        type_id=type_id,
        units=min(len(start.slots) for start in starts) if mixed else units,
        max_instances=len(starts) if mixed else each.max_gpu,
        memory_mib=each.fb_mib,
        size_class=0 if mixed else each.fb_mib,
        max_per_vm=most_per_vm(each),
        verified=each.verified,
        series=each.series,
        starts=starts,
        needs_vf=not gpu.mdev_types,
    )


def _placements(board: Board, each: VgpuType) -> tuple[SlotStart, ...]:
    size = catalog.placement_size(board, each)
    return tuple(
        SlotStart(at=at, slots=catalog.placement_slots(board, at, size))
        for at in catalog.mixed_ids(board, each)
    )


def _mig_backed(
    gpu: GpuFacts, board: Board, through: Framework, ids: Mapping[str, str]
) -> Iterator[Offer]:
    known = catalog.mig(board)
    for profile in known.profiles if known else ():
        starts = _instance_starts(gpu, board, profile)
        for each in catalog.mig_types(board, profile.name) if starts else ():
            if each.profile in ids:
                yield _in_instance(board, each, profile, starts, through, ids[each.profile])


def _in_instance(
    board: Board,
    each: VgpuType,
    profile: GiProfile,
    starts: tuple[SlotStart, ...],
    through: Framework,
    type_id: str,
) -> Offer:
    """A type that has a GPU instance to itself goes by the MIG profile's name, or answers to it."""
    short = whole_instance_name(board, each)
    named = short if short and not profile.graphics else each.profile
    return Offer(
        profile=named,
        framework=through,
        type_id=type_id,
        units=catalog.allocation_units(board, each),
        max_instances=each.max_gpu,
        memory_mib=each.fb_mib,
        size_class=each.fb_mib if profile.graphics else 0,
        max_per_vm=most_per_vm(each),
        verified=each.verified and profile.verified,
        names=tuple(
            name
            for name in (each.profile, short, *(profile.earlier if short else ()))
            if name and name != named
        ),
        series=each.series,
        starts=starts,
        needs_vf=True,
        instance=InstanceOffer(
            profile=profile.name,
            profile_id=profile.id,
            size=profile.size,
            gpu_slices=profile.gpu_slices,
            media=profile.media,
            per_instance=each.max_per_gi,
        ),
    )


def _instance_starts(gpu: GpuFacts, board: Board, profile: GiProfile) -> tuple[SlotStart, ...]:
    """The driver's list of places where it gave one, else the catalogue's."""
    told = gpu.mig.profiles if gpu.mig else ()
    starts = profile.starts
    if told:
        starts = next((each.starts for each in told if each.profile_id == profile.id), ())
    return tuple(
        SlotStart(at=at, slots=catalog.slice_slots(board, at, profile.size)) for at in starts
    )
