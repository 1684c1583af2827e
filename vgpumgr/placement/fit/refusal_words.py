"""The words of refusals by a GPU: its name, the VMs on it, and why no slot is left for a part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.model.formats import ranges
from vgpumgr.model.placement import Reason
from vgpumgr.model.supply import InstanceOffer, Offer, Usage
from vgpumgr.placement.resources.gpu_slots import slots_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.slot_grid import InstanceSlots

PLACED_BEFORE = "a VM of the same request"


def name(gpu: GpuOccupancy) -> str:
    """Model and device; a virtual parent has one name for both."""
    supply = gpu.supply
    return supply.model if supply.model == supply.device else f"{supply.model} {supply.device}"


def no_gpu(gpu: GpuOccupancy, code: str, text: str, **facts: int | str) -> Reason:
    """A Reason about this GPU."""
    supply = gpu.supply
    return Reason(
        code=code, host=gpu.host, text=text, gpu=supply.id, device=supply.device,
        model=supply.model, facts=facts,
    )  # fmt: skip


def holder(usages: Iterable[Usage]) -> str:
    """The VMs and foreign users behind these usages; empty where there is none."""
    names = (f"VM {u.vm}" if u.vm else u.foreign or "a foreign user" for u in usages)
    return ", ".join(dict.fromkeys(names))


def holders(gpu: GpuOccupancy) -> str:
    """The VMs and foreign users of the GPU, VMs placed before included."""
    known = holder(gpu.supply.usages)
    if gpu.used > len(gpu.supply.usages):
        known = f"{known}, {PLACED_BEFORE}" if known else PLACED_BEFORE
    return known


def instance_words(gpu: GpuOccupancy, instance: InstanceSlots) -> str:
    """A GPU instance with the VMs in it, or ``free``: ``1g.10gb at 0 (VM web-1)``."""
    supply = instance.supply
    inside = holder(u for u in gpu.supply.usages if u.start == supply.start)
    if instance.vgpus and (not inside or instance.vgpus > supply.vgpus):
        inside = f"{inside}, {PLACED_BEFORE}" if inside else PLACED_BEFORE
    return f"{supply.profile} at {supply.start} ({inside or supply.blocked or 'free'})"


def numbers(values: Iterable[int]) -> str:
    """``0, 4, 8``."""
    return ", ".join(str(value) for value in values)


def no_space(gpu: GpuOccupancy, offer: Offer) -> Reason:
    """Why there is no place where the driver would put one more."""
    if offer.instance is not None:
        return _no_instance(gpu, offer, offer.instance)
    return _no_start(gpu, offer) if offer.starts else _too_few_slots(gpu, offer)


def _too_few_slots(gpu: GpuOccupancy, offer: Offer) -> Reason:
    free, units = gpu.grid.free.bit_count(), gpu.supply.units
    text = f"{name(gpu)} has {free} of {units} units free, {offer.profile} takes {offer.units}"
    return no_gpu(gpu, "free-slots", text, free=free, units=units, need=offer.units)


def _no_start(gpu: GpuOccupancy, offer: Offer) -> Reason:
    """Mixed-size: the ids at which the type may begin, and what lies there."""
    ids, taken = numbers(start.at for start in offer.starts), []
    for usage in gpu.supply.usages:
        where = "an unknown id" if usage.start is None else usage.start
        taken.append(f"{usage.profile} at {where} ({holder([usage])})")
    planned = gpu.used - len(taken)
    if planned:
        taken.append(f"{planned} of the same request")
    free = ranges(slots_of(gpu.grid.free), ", ")
    there = ", ".join(taken) or f"only slots {free} are free"
    text = f"{name(gpu)} has none of the placement ids of {offer.profile} free ({ids}): {there}"
    return no_gpu(gpu, "no-start", text, ids=ids, taken=there)


def _no_instance(gpu: GpuOccupancy, offer: Offer, made: InstanceOffer) -> Reason:
    return (
        _too_many_instances(gpu, offer, made)
        or _media_taken(gpu, made)
        or _too_few_slices(gpu, made)
        or _starts_taken(gpu, offer, made)
    )


def _too_many_instances(gpu: GpuOccupancy, offer: Offer, made: InstanceOffer) -> Reason | None:
    live, most = gpu.grid.made(made.profile_id), offer.max_instances
    if live < most:
        return None
    full = [i for i in gpu.grid.instances if i.supply.profile_id == made.profile_id]
    text = f"{name(gpu)} holds {live} {made.profile} instances, {most} is the most"
    text += f": {_list(gpu, full)}" if full else ""
    return no_gpu(gpu, "max-instances", text, live=live, most=most)


def _media_taken(gpu: GpuOccupancy, made: InstanceOffer) -> Reason | None:
    other = gpu.grid.media_holder() if made.media else None
    if other is None:
        return None
    there = instance_words(gpu, other)
    text = f"{name(gpu)} has media extensions once, and they are with {there}"
    return no_gpu(gpu, "mig-media", text, holder=there)


def _too_few_slices(gpu: GpuOccupancy, made: InstanceOffer) -> Reason | None:
    left, need = gpu.grid.slices_left(), made.gpu_slices
    if left is None or left >= need:
        return None
    text = f"{name(gpu)} has {left} of {gpu.supply.gpu_slices} compute slices left, "
    text += f"{made.profile} takes {need}: {_list(gpu, gpu.grid.instances)}"
    return no_gpu(gpu, "mig-slices", text, left=left, need=need, total=gpu.supply.gpu_slices)


def _starts_taken(gpu: GpuOccupancy, offer: Offer, made: InstanceOffer) -> Reason:
    starts = gpu.grid.shapes.starts(offer)
    if not starts:
        text = f"{name(gpu)} has no {made.profile} instance with room, and its driver listed no"
        return no_gpu(gpu, "mig-room", f"{text} place for another", starts="unknown")
    at = numbers(number for number, _ in starts)
    under = [i for i in gpu.grid.instances if any(mask & i.slots for _, mask in starts)]
    way = _list(gpu, under) if under else _unknown_slots(gpu, starts)
    text = f"{name(gpu)} has no place left for {made.profile}, which begins at slice {at}"
    return no_gpu(gpu, "mig-room", f"{text}; in the way: {way}", starts=at, in_the_way=way)


def _unknown_slots(gpu: GpuOccupancy, starts: Sequence[tuple[int, int]]) -> str:
    """Slots that are taken though no instance is known there."""
    wanted = 0
    for _, mask in starts:
        wanted |= mask
    taken = ranges(slots_of(wanted & ~gpu.grid.free), ", ")
    return f"units {taken} are taken" if taken else "its free places are too small"


def _list(gpu: GpuOccupancy, instances: Iterable[InstanceSlots]) -> str:
    ordered = sorted(instances, key=lambda each: each.supply.start)
    return ", ".join(instance_words(gpu, each) for each in ordered)
