"""GPUs outside the catalogue: their types, profiles and slots, as drivers and VF files report them.

In MIG mode slots are GiB, as many as the largest type has, and at least one per slice of the memory
grid. The grid reaches as far as the places that the driver reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.model.gpu import Framework, GpuFacts, MigProfile, MigType
from vgpumgr.model.supply import InstanceOffer, Offer, SlotStart

MIB_PER_GIB = 1024
# The end of a vGPU type's name: ``-4Q``, ``-2B4``. Its number is the frame buffer in GiB, of less
# than 4 TiB: slots are counted by it.
_SIZE = re.compile(r"-([1-9]\d{0,2}|[1-3]\d{3})[A-Z]\d*$", re.ASCII)
# A name that the driver told, not one that stands for its number alone.
_NAMED = re.compile(r"\d+g\.\d+gb", re.ASCII)
_MEDIA = "+me"


@dataclass(frozen=True, slots=True)
class VfType:
    """A type that VFs carry by themselves. ``series`` is the letter of its name."""

    type_id: str
    profile: str
    gib: int
    series: str


def is_unlisted(gpu: GpuFacts) -> bool:
    """Does the catalogue not know it?"""
    return catalog.board(gpu.model) is None and catalog.sriov_board(gpu.model) is None


def vf_types(gpu: GpuFacts) -> tuple[VfType, ...]:
    """The known types whose name tells their size."""
    return tuple(_read(gpu.vf_types))


def plain_profile(gpu: GpuFacts) -> str:
    """The profile of one of its plain VFs (``8086:10c9-1of4``); empty where it has none."""
    if not gpu.vfs or not is_unlisted(gpu) or not all(vf.is_plain for vf in gpu.vfs):
        return ""
    return catalog.vf_profile(gpu.model, len(gpu.vfs))


def no_mig_vgpus(gpu: GpuFacts) -> str:
    """Why no vGPU is made in the GPU instances of a board outside the catalogue; empty elsewhere,
    and where its driver tells which types lie in them.
    """
    if gpu.mig is None or gpu.mig.types or not is_unlisted(gpu):
        return ""
    if not gpu.mig.profiles:
        told = "no MIG profile yet"
    elif gpu.mig.types is None:
        told = "MIG profiles, but not which vGPUs they hold"
    else:
        now = "" if gpu.mig.enabled else " while MIG is off"
        told = f"MIG profiles, but no vGPU type that is backed by one{now}"
    return f"it is not in the catalogue, and its driver reports {told}"


def learned_profiles(gpu: GpuFacts) -> frozenset[str]:
    """Names that users may write because a host told them."""
    mdev_types = (gpu.mdev_types, *(vf.mdev_types for vf in gpu.vfs))
    names = {each.profile for types in mdev_types for each in types}
    names |= {each.profile for each in vf_types(gpu)} | {*mig_names(gpu)}
    return frozenset(names | {plain_profile(gpu)}) - {""}


def complete_types(gpu: GpuFacts) -> Mapping[str, str] | None:
    """``vf_types`` where they are all there is; None where a vGPU hides some, or a list failed.

    In MIG mode the lists have only what the GPU instances of the moment can make.
    """
    if not gpu.vf_types or (gpu.mig is not None and gpu.mig.enabled):
        return None
    vendors = [vf.vendor for vf in gpu.vfs]
    told = all(each and each.type_id == 0 and each.creatable is not None for each in vendors)
    return gpu.vf_types if told else None


def _read(types: Mapping[str, str]) -> Iterator[VfType]:
    for type_id, name in types.items():
        size = _SIZE.search(name)
        if size is not None:
            series = size[0].lstrip("-0123456789")[0]
            yield VfType(type_id, catalog.normalise(name), int(size[1]), series)


def mig_types(gpu: GpuFacts) -> tuple[MigType, ...]:
    """The MIG-backed types that its driver tells of; none on boards of the catalogue."""
    return (gpu.mig.types if gpu.mig else None) or ()


def mig_names(gpu: GpuFacts) -> dict[str, None]:
    """What users may write for them, in the driver's order: the types', and the profiles' that
    stand for one of them.
    """
    by_id = {each.profile_id: each for each in _profiles(gpu)}
    found: dict[str, None] = {}
    for each in mig_types(gpu):
        found[each.profile] = None
        if each.profile_id in by_id and (short := _whole(gpu, by_id[each.profile_id], each)):
            found[short] = None
    return found


def gib(each: MigType) -> int:
    """Its size in slots."""
    return -(-each.memory_mib // MIB_PER_GIB)


def grid(gpu: GpuFacts) -> int:
    """Slices of memory, as far as any place or instance reaches; 0 where none is told."""
    there = (gpu.mig.instances if gpu.mig else None) or ()
    ends = [start + each.size for each in _profiles(gpu) for start in each.starts]
    return max([*ends, *(each.start + each.size for each in there)], default=0)


def gpu_slices(gpu: GpuFacts) -> int:
    """Compute slices of the whole GPU: those of the largest profile; 0 where none is told."""
    return max((each.gpu_slices for each in _profiles(gpu)), default=0)


def mig_profile(gpu: GpuFacts, number: int) -> MigProfile | None:
    """The GPU-instance profile of that number."""
    return next((each for each in _profiles(gpu) if each.profile_id == number), None)


def has_media(each: MigProfile) -> bool:
    """Whether the instance has the media engines, which one instance of a GPU can have."""
    return _MEDIA in each.name


def slice_slots(gpu: GpuFacts, start: int, size: int) -> tuple[int, ...]:
    """The slots under slices [start, start + size), as the catalogue counts them; none where no
    type is told, for then nothing is offered in its instances.
    """
    slices, total = grid(gpu), slots(gpu)
    if not mig_types(gpu) or start + size > slices:
        return ()
    return tuple(range(start * total // slices, (start + size) * total // slices))


def slots(gpu: GpuFacts) -> int:
    """Slots of the whole GPU, whichever way it is partitioned."""
    return max([1, *gpu.type_units.values(), *_memory(gpu)])


def _memory(gpu: GpuFacts) -> Iterator[int]:
    """The largest type, its instance's share taken into account, and a slot for each slice."""
    told, slices = mig_types(gpu), grid(gpu)
    yield from map(gib, told)
    sizes = {each.profile_id: each.size for each in _profiles(gpu)}
    inside = [(sizes[each.profile_id], gib(each)) for each in told if each.profile_id in sizes]
    if inside:
        size, most = max(inside)
        yield most * slices // size
        yield slices


def mig_offers(gpu: GpuFacts, through: Framework, ids: Mapping[str, str]) -> Iterator[Offer]:
    """Offers of the types in ``ids`` (profile → type id); none while MIG mode is off."""
    if gpu.mig is None or not gpu.mig.enabled:
        return
    for inside in _profiles(gpu):
        found = [
            each
            for each in mig_types(gpu)
            if each.profile_id == inside.profile_id and each.profile in ids
        ]
        places = inside.starts if found else ()
        starts = tuple(SlotStart(at=at, slots=slice_slots(gpu, at, inside.size)) for at in places)
        for each in found if starts else ():
            named = _names(gpu, inside, each)
            yield _offer(each, named, inside, starts, through, ids[each.profile])


def _offer(
    each: MigType,
    named: tuple[str, ...],
    inside: MigProfile,
    starts: tuple[SlotStart, ...],
    through: Framework,
    type_id: str,
) -> Offer:
    """An instance holds at most as many vGPUs of the type as it has slots."""
    fewest = min(len(start.slots) for start in starts)
    per_instance = min(each.per_instance, fewest)
    return Offer(
        profile=named[0],
        framework=through,
        type_id=type_id,
        units=min(gib(each), fewest // per_instance),
        max_instances=per_instance * (1 if has_media(inside) else len(starts)),
        memory_mib=each.memory_mib,
        size_class=each.memory_mib if inside.graphics else 0,
        max_per_vm=each.per_vm,
        verified=False,
        names=named[1:],
        series=each.series,
        starts=starts,
        needs_vf=True,
        instance=InstanceOffer(
            profile=inside.name,
            profile_id=inside.profile_id,
            size=inside.size,
            gpu_slices=inside.gpu_slices,
            media=has_media(inside),
            per_instance=per_instance,
        ),
    )


def _profiles(gpu: GpuFacts) -> tuple[MigProfile, ...]:
    return gpu.mig.profiles if gpu.mig else ()


def _names(gpu: GpuFacts, inside: MigProfile, each: MigType) -> tuple[str, ...]:
    """By the MIG profile's name first where it stands for the type, but for graphics."""
    short = _whole(gpu, inside, each)
    if not short:
        return (each.profile,)
    return (each.profile, short) if inside.graphics else (short, each.profile)


def _whole(gpu: GpuFacts, inside: MigProfile, each: MigType) -> str:
    """The MIG profile's name, where it stands for this type."""
    alone = gpu.mig.alone_in(inside) if gpu.mig else None
    return inside.name if alone == each and _NAMED.match(inside.name) else ""
