"""Rules a GPU must pass to hold one part of a VM, and how many parts of one kind it still takes.

Each rule returns None, or the Reason with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.model.formats import format_mib, ranges
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Reason
from vgpumgr.model.supply import InstanceOffer, Offer, Usage
from vgpumgr.placement.resources.demand import Demand, PartKind, named, whole
from vgpumgr.placement.resources.gpu_slots import Spot, slots_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy, Verdict
from vgpumgr.placement.resources.slot_grid import InstanceSlots

# Boards make up to forty profiles: a sentence names a few of them.
_NAMED = 5


def not_offered(gpu: GpuOccupancy, kind: PartKind) -> Reason | None:
    """The GPU must be of the model, and have an offer that answers the request."""
    if gpu.matching(kind):
        return None
    return (
        other_model(gpu, kind)
        or other_framework(gpu, kind)
        or needs_layout(gpu, kind)
        or too_small(gpu, kind)
        or no_such_profile(gpu, kind)
    )


def other_model(gpu: GpuOccupancy, kind: PartKind) -> Reason | None:
    """The request names a GPU model."""
    if kind.allows(gpu.supply.model):
        return None
    wanted = " or ".join(kind.models)
    return no_gpu(gpu, "model", f"{name(gpu)} is not of model {wanted}", wanted=wanted)


def other_framework(gpu: GpuOccupancy, kind: PartKind) -> Reason | None:
    """The request names a framework, and this GPU has the profile through another one."""
    there = dict.fromkeys(str(offer.framework) for offer in named(gpu.supply.offers, kind))
    if not there or kind.framework is None:
        return None
    what, through = kind.profile or format_mib(kind.memory_mib), ", ".join(there)
    text = f"{name(gpu)} provides {what} through {through}, {kind.framework} is requested"
    return no_gpu(gpu, "framework", text, wanted=kind.framework, offered=through)


def needs_layout(gpu: GpuOccupancy, kind: PartKind) -> Reason | None:
    """Only the way the GPU is laid out keeps it from making the profile."""
    lines = gpu.supply.could.get(kind.profile)
    if lines is None:
        return None
    text = f"{name(gpu)} could provide {kind.profile} with a layout: {lines}"
    if gpu.supply.automatic:
        text = f"{name(gpu)} is partitioned for {kind.profile} when a VM needs it: {lines}"
    return no_gpu(gpu, "needs-layout", text, wanted=kind.profile, layout=lines)


def too_small(gpu: GpuOccupancy, kind: PartKind) -> Reason | None:
    """By size: the largest that it makes has less memory."""
    if kind.profile:
        return None
    wanted = format_mib(kind.memory_mib)
    largest = max(gpu.supply.offers, key=lambda offer: offer.memory_mib, default=None)
    has = f"{largest.profile} with {format_mib(largest.memory_mib)}" if largest else "nothing"
    text = f"{name(gpu)} has no profile of {wanted} or more (its largest is {has})"
    return no_gpu(gpu, "gpu-memory", text, wanted_mib=kind.memory_mib, largest=has)


def no_such_profile(gpu: GpuOccupancy, kind: PartKind) -> Reason:
    """The profile is none of this board's."""
    profiles = tuple(dict.fromkeys(offer.profile for offer in gpu.supply.offers))
    offered = ", ".join(profiles) or "nothing"
    more = f" and {len(profiles) - _NAMED} more" if len(profiles) > _NAMED else ""
    some = ", ".join(profiles[:_NAMED]) or "nothing"
    why = f": {gpu.supply.no_mig_vgpus}" if gpu.supply.no_mig_vgpus else ""
    text = f"{name(gpu)} does not offer {kind.profile} (it offers {some}{more}{why})"
    return no_gpu(gpu, "profile", text, wanted=kind.profile, offered=offered)


def refuse_gpu(gpu: GpuOccupancy, kind: PartKind, demand: Demand) -> Reason | None:
    """The first rule that keeps one part of ``kind`` off this GPU, or None.

    By size several offers may do; then it is what the first of them, the smallest, fails at.
    """
    reason = blocked(gpu) or not_offered(gpu, kind)
    if reason is not None:
        return reason
    for offer in gpu.matching(kind):
        verdict = judge(gpu, offer, demand.vgpus)
        if not isinstance(verdict, Reason):
            return None
        reason = reason or verdict
    return reason


def judge(gpu: GpuOccupancy, offer: Offer, vgpus: int) -> Verdict:
    """The first rule that ``offer`` fails on this GPU, for a VM with ``vgpus`` vGPUs in all.

    If there is none, the places where it may lie, best first: at least one.
    """
    key = offer.profile, offer.type_id, vgpus
    verdict = gpu.known.get(key)
    if verdict is None:
        verdict = gpu.known[key] = _refuse(gpu, offer, vgpus) or gpu.spots(offer)
    return verdict


def _refuse(gpu: GpuOccupancy, offer: Offer, vgpus: int) -> Reason | None:
    if whole(offer):
        return blocked(gpu) or passthrough_blocked(gpu) or in_use(gpu)
    return (
        blocked(gpu)
        or given_whole(gpu, offer)
        or same_size(gpu, offer)
        or max_per_vm(gpu, offer, vgpus)
        or max_instances(gpu, offer)
        or driver_count(gpu, offer)
        or free_space(gpu, offer)
        or free_vf(gpu, offer)
    )


def blocked(gpu: GpuOccupancy) -> Reason | None:
    """Quarantined, missing, driver gone: the supply says it in a sentence."""
    if not gpu.supply.blocked:
        return None
    return no_gpu(gpu, "gpu-blocked", f"{name(gpu)}: {gpu.supply.blocked}")


def passthrough_blocked(gpu: GpuOccupancy) -> Reason | None:
    """IOMMU off, group shared, console device: only the whole GPU may not be given."""
    if not gpu.supply.passthrough_blocked:
        return None
    return no_gpu(gpu, "passthrough-blocked", f"{name(gpu)}: {gpu.supply.passthrough_blocked}")


def in_use(gpu: GpuOccupancy) -> Reason | None:
    """A GPU is given whole only when nothing lives on it and all its slots are free."""
    if gpu.empty:
        return None
    units, taken = gpu.supply.units, gpu.supply.units - gpu.grid.free.bit_count()
    instances = len(gpu.grid.instances)
    holds = f"{instances} GPU instances, " if instances else ""
    holds += f"{_live(gpu)}{taken} of {units} units taken"
    text = f"passthrough needs an empty GPU: {name(gpu)} has {holds}"
    return no_gpu(gpu, "in-use", text, users=gpu.used, taken=taken, units=units)


def given_whole(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """No vGPU on a GPU that a VM has as a whole."""
    if not gpu.whole:
        return None
    usages = (u for u in gpu.supply.usages if u.framework is Framework.PASSTHROUGH)
    who = holder(usages) or PLACED_BEFORE
    text = f"{name(gpu)} is passed through whole to {who}, no room for {offer.profile}"
    return no_gpu(gpu, "given-whole", text, holder=who)


def same_size(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """Without mixed-size mode the first time-sliced vGPU fixes the size of all on that GPU."""
    if not gpu.supply.same_size or offer.instance is not None:
        return None
    for size_class, count in gpu.classes.items():
        if size_class != offer.size_class:
            held, size = _size_of(gpu, size_class), format_mib(offer.memory_mib)
            text = (
                f"same-size rule: {name(gpu)} holds {held} vGPUs ({count} of them), "
                f"{offer.profile} is {size}"
            )
            lines = gpu.supply.could.get(offer.profile)
            text += f" (a layout can allow mixed sizes: {lines})" if lines else ""
            return no_gpu(gpu, "same-size", text, holds=held, count=count, size=size)
    return None


def max_per_vm(gpu: GpuOccupancy, offer: Offer, asked: int) -> Reason | None:
    """The driver limits how many vGPUs one VM has; a limit of 1 allows no second of any kind."""
    most = offer.max_per_vm
    if asked <= most:
        return None
    text = f"{offer.profile} on {name(gpu)} allows {most} in one VM, {asked} vGPUs are requested"
    return no_gpu(gpu, "max-per-vm", text, most=most, asked=asked)


def max_instances(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """The most instances of one profile on one GPU; for MIG the instances themselves count."""
    live, most = gpu.count(offer.profile), offer.max_instances
    if live < most or offer.instance is not None:
        return None
    text = f"{name(gpu)} holds {live} {offer.profile}, {most} is the most"
    return no_gpu(gpu, "max-instances", text, live=live, most=most)


def driver_count(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """The driver's own count of what it would still create is a ceiling."""
    left = gpu.driver_left(offer)
    if left is None or left > 0:
        return None
    counted = gpu.supply.available[offer.type_id]
    made = gpu.made(offer.type_id)
    planned = f" ({made} of them planned)" if made else ""
    text = f"the driver of {name(gpu)} offers {counted} more {offer.profile}{planned}"
    return no_gpu(gpu, "driver-available", text, available=counted, planned=made)


def free_vf(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """On an SR-IOV GPU each vGPU takes a virtual function."""
    if not offer.needs_vf or gpu.vfs:
        return None
    planned = f" ({gpu.vfs_taken} were, and are planned)" if gpu.vfs_taken else ""
    text = f"no VF of {name(gpu)} is free{planned}, {offer.profile} takes one"
    return no_gpu(gpu, "no-vf", text, free=0, planned=gpu.vfs_taken)


def _live(gpu: GpuOccupancy) -> str:
    held = ", ".join(f"{count} × {profile}" for profile, count in gpu.live.items())
    return f"{held}, " if held else ""


def _size_of(gpu: GpuOccupancy, size_class: int) -> str:
    """Memory of a vGPU of that class; ``unknown-size`` for a foreign one of an unknown class."""
    offers = [o for o in gpu.supply.offers if o.size_class == size_class and not whole(o)]
    held = gpu.live
    live = [offer for offer in offers if offer.profile in held]
    named = live or (offers if size_class else [])
    return format_mib(named[0].memory_mib) if named else "unknown-size"


def room(gpu: GpuOccupancy, kind: PartKind, demand: Demand) -> int:
    """How many parts of ``kind`` this GPU can still take, for one VM or for several."""
    offers = gpu.matching(kind)
    if len(offers) > 1:
        return _by_trying(gpu, kind, demand)
    if not offers or isinstance(judge(gpu, offers[0], demand.vgpus), Reason):
        return 0
    return 1 if whole(offers[0]) else gpu.room(offers[0])


def places(
    gpu: GpuOccupancy, kind: PartKind, demand: Demand
) -> tuple[Offer, tuple[Spot, ...]] | None:
    """The best offer for ``kind`` that the GPU can make now, and where it may lie, best first."""
    for offer in gpu.matching(kind):
        verdict = judge(gpu, offer, demand.vgpus)
        if not isinstance(verdict, Reason):
            return offer, verdict
    return None


def first_fit(gpu: GpuOccupancy, kind: PartKind, demand: Demand) -> tuple[Offer, Spot] | None:
    """The best offer for ``kind`` that the GPU can make now, and the best place for it."""
    found = places(gpu, kind, demand)
    return found and (found[0], found[1][0])


def _by_trying(gpu: GpuOccupancy, kind: PartKind, demand: Demand) -> int:
    """Offers of several sizes take room from each other."""
    taken = []
    while found := first_fit(gpu, kind, demand):
        taken.append(gpu.take(*found))
    for each in reversed(taken):
        gpu.give_back(each)
    return len(taken)


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


def free_space(gpu: GpuOccupancy, offer: Offer) -> Reason | None:
    """A place where the driver would put one more."""
    if gpu.spots(offer):
        return None
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
