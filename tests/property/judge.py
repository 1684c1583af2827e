"""A judge replays each decision step by step on supplies alone: it knows the driver's rules, and
nothing of how placement works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import (
    Fleet,
    GpuSupply,
    HostSupply,
    InstanceOffer,
    InstanceSupply,
    Offer,
    SlotStart,
    Usage,
)
from vgpumgr.model.vm import GpuRequest


def complaint(gpu: GpuSupply, part: Assignment) -> str:
    """The first rule that the part breaks on this GPU; empty when it is legal."""
    offer = part.offer
    if gpu.blocked or offer not in gpu.offers or any(is_whole(u) for u in gpu.usages):
        return "gpu"
    if is_whole(offer):
        empty = not gpu.usages and len(gpu.free_slots) == gpu.units
        taken = set(part.slots) == set(gpu.free_slots)
        return "" if empty and taken and not gpu.passthrough_blocked else "whole"
    if offer.needs_vf and (not gpu.free_vfs or part.vf != gpu.free_vfs[0]):
        return "vf"
    if offer.instance is not None:
        return _mig_complaint(gpu, part, offer.instance)
    classes = {usage.size_class for usage in gpu.usages} | {offer.size_class}
    if gpu.same_size and len(classes) > 1:
        return "same-size"
    if sum(usage.profile == offer.profile for usage in gpu.usages) >= offer.max_instances:
        return "max-instances"
    if offer.starts:
        legal = [start for start in offer.starts if start.at == part.start]
        if not legal or legal[0].slots != part.slots:
            return "start"
    elif len(set(part.slots)) != offer.units or part.start is not None:
        return "units"
    return "" if set(part.slots) <= set(gpu.free_slots) else "slots"


def is_whole(thing: Usage | Offer) -> bool:
    return thing.framework is Framework.PASSTHROUGH


def _takes(instance: InstanceSupply, offer: Offer) -> bool:
    made = offer.instance
    return (
        made is not None
        and not instance.blocked
        and instance.profile_id == made.profile_id
        and instance.vgpus < made.per_instance
        and (not instance.vgpus or instance.size_class == offer.size_class)
        and len(instance.free) >= offer.units
    )


def _with_room(gpu: GpuSupply, offer: Offer) -> list[InstanceSupply]:
    """Instances with room, in the driver's order: lowest id first, planned ones last."""
    found = [instance for instance in gpu.instances if _takes(instance, offer)]
    return sorted(found, key=lambda i: (i.id is None, i.id or 0))


def _mig_complaint(gpu: GpuSupply, part: Assignment, made: InstanceOffer) -> str:
    room = _with_room(gpu, part.offer)
    if room:
        chosen = room[0]
        legal = not part.make_instance and part.start == chosen.start
        inside = len(part.slots) == part.offer.units and set(part.slots) <= set(chosen.free)
        return "" if legal and inside else "not the driver's instance"
    start = next((s for s in part.offer.starts if s.at == part.start), None)
    if not part.make_instance or start is None:
        return "no such start"
    if not set(part.slots) <= set(start.slots) or len(part.slots) != part.offer.units:
        return "units"
    return instance_complaint(gpu, part.offer, start)


def instance_complaint(gpu: GpuSupply, offer: Offer, start: SlotStart) -> str:
    made = offer.instance
    assert made is not None
    slices = sum(i.gpu_slices for i in gpu.instances) + made.gpu_slices
    alike = sum(i.profile_id == made.profile_id for i in gpu.instances)
    if (gpu.gpu_slices and slices > gpu.gpu_slices) or alike >= offer.max_instances:
        return "slices"
    if made.media and any(instance.media for instance in gpu.instances):
        return "media"
    return "" if set(start.slots) <= set(gpu.free_slots) else "slots"


def after(gpu: GpuSupply, part: Assignment, vm: str = "old") -> GpuSupply:
    """The supply that the next look would find."""
    offer = part.offer
    if offer.instance is not None and part.make_instance:
        start = next(s for s in offer.starts if s.at == part.start)
        gpu = with_instance(gpu, instance_of(offer.instance, start))
    if offer.instance is not None:
        inside = tuple(_entered(i, part) if i.start == part.start else i for i in gpu.instances)
        gpu = replace(gpu, instances=inside)
    return replace(
        gpu,
        free_slots=tuple(slot for slot in gpu.free_slots if slot not in part.slots),
        usages=(*gpu.usages, usage_of(offer, vm, part.start)),
        free_vfs=gpu.free_vfs[1:] if offer.needs_vf else gpu.free_vfs,
    )


def usage_of(offer: Offer, vm: str, start: int | None) -> Usage:
    return Usage(
        profile=offer.profile,
        framework=offer.framework,
        units=offer.units,
        size_class=offer.size_class,
        vm=vm,
        start=start,
    )


def instance_of(made: InstanceOffer, start: SlotStart) -> InstanceSupply:
    return InstanceSupply(
        profile=made.profile,
        profile_id=made.profile_id,
        start=start.at,
        size=made.size,
        gpu_slices=made.gpu_slices,
        slots=start.slots,
        free=start.slots,
        media=made.media,
    )


def with_instance(gpu: GpuSupply, made: InstanceSupply) -> GpuSupply:
    free = tuple(slot for slot in gpu.free_slots if slot not in made.slots)
    return replace(gpu, free_slots=free, instances=(*gpu.instances, made))


def _entered(instance: InstanceSupply, part: Assignment) -> InstanceSupply:
    return replace(
        instance,
        free=tuple(slot for slot in instance.free if slot not in part.slots),
        vgpus=instance.vgpus + 1,
        size_class=part.offer.size_class,
    )


def answers(offer: Offer, part: GpuRequest) -> bool:
    """The offer is what was asked for, by name or by size."""
    named = part.profile in (offer.profile, *offer.names)
    sized = not part.profile and offer.memory_mib >= (part.memory_mib or 0)
    return (named or sized) and part.framework in (None, offer.framework)


def replayed(fleet: Fleet, placed: Placed) -> Fleet:
    """The fleet after the decision; AssertionError when it breaks a rule."""
    host = next(h for h in fleet.hosts if h.name == placed.host)
    before = {gpu.id: gpu for gpu in host.gpus}
    gpus = dict(before)
    wanted = [part for part in placed.request.gpus for _ in range(part.count)]
    for part, asked in zip(placed.assignments, wanted, strict=True):
        assert answers(part.offer, asked)
    # Parts come in the order of the request, VFs and instances in the order of the search.
    left = list(placed.assignments)
    while left:
        legal = [part for part in left if not complaint(gpus[part.gpu], part)]
        assert legal, [complaint(gpus[part.gpu], part) for part in left]
        left.remove(legal[0])
        gpus[legal[0].gpu] = after(gpus[legal[0].gpu], legal[0], placed.request.name)
    _one_family(before, placed.assignments)
    _one_partition(host, placed)
    moved = replace(host, gpus=tuple(gpus.values()), free_vcpus=host.free_vcpus - 1)
    return Fleet(hosts=tuple(moved if h is host else h for h in fleet.hosts))


def _one_family(gpus: dict[str, GpuSupply], parts: Sequence[Assignment]) -> None:
    vgpus = [part for part in parts if not is_whole(part.offer)]
    assert len({(gpus[part.gpu].model, part.offer.series) for part in vgpus}) <= 1
    assert all(len(vgpus) <= part.offer.max_per_vm for part in vgpus)


def _one_partition(host: HostSupply, placed: Placed) -> None:
    whole = frozenset(part.gpu for part in placed.assignments if is_whole(part.offer))
    if host.partitions and whole:
        assert [p.id for p in host.partitions if p.gpus == whole] == [placed.partition]
    else:
        assert placed.partition is None
