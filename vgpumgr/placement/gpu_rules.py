"""Rules a GPU must pass to hold one part of a VM, in the order they are tried.

Each rule returns None, or the Reason with its numbers.
"""

from __future__ import annotations

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Offer, Reason
from vgpumgr.model.size import format_mib
from vgpumgr.placement.demand import Demand, Kind
from vgpumgr.placement.state import GpuState


def refuse_gpu(gpu: GpuState, kind: Kind, demand: Demand) -> Reason | None:
    """The first rule that keeps one part of ``kind`` off this GPU, or None."""
    reason = blocked(gpu) or other_model(gpu, kind) or not_offered(gpu, kind)
    if reason is not None:
        return reason
    if kind.whole:
        return passthrough_blocked(gpu) or in_use(gpu)
    offer = gpu.offers[kind.profile]
    return (
        given_whole(gpu, offer)
        or same_size(gpu, offer)
        or max_per_vm(gpu, offer, demand.vgpus)
        or max_instances(gpu, offer)
        or driver_count(gpu, offer)
        or free_slots(gpu, offer)
    )


def room(gpu: GpuState, kind: Kind, demand: Demand) -> int:
    """How many parts of ``kind`` this GPU can still take, for one VM or for several."""
    if refuse_gpu(gpu, kind, demand) is not None:
        return 0
    offer = gpu.offers[kind.profile]
    if kind.whole:
        return 1
    left = min(offer.max_instances - gpu.live.get(offer.profile, 0), _fit_in_slots(gpu, offer))
    driver = _driver_left(gpu, offer)
    return left if driver is None else min(left, driver)


def blocked(gpu: GpuState) -> Reason | None:
    """Quarantined, missing, driver gone: the supply says it in a sentence."""
    if not gpu.supply.blocked:
        return None
    return no_gpu(gpu, "gpu-blocked", f"{name(gpu)}: {gpu.supply.blocked}")


def other_model(gpu: GpuState, kind: Kind) -> Reason | None:
    """The request names a GPU model."""
    if kind.model is None or gpu.supply.model.casefold() == kind.model.casefold():
        return None
    return no_gpu(gpu, "model", f"{name(gpu)} is not of model {kind.model}", wanted=kind.model)


def not_offered(gpu: GpuState, kind: Kind) -> Reason | None:
    """The GPU must be able to make the profile."""
    if kind.profile in gpu.offers:
        return None
    offered = ", ".join(gpu.offers) or "nothing"
    text = f"{name(gpu)} cannot make {kind.profile} (it offers {offered})"
    return no_gpu(gpu, "profile", text, wanted=kind.profile, offered=offered)


def passthrough_blocked(gpu: GpuState) -> Reason | None:
    """IOMMU off, group shared, console device: only the whole GPU may not be given."""
    if not gpu.supply.passthrough_blocked:
        return None
    return no_gpu(gpu, "passthrough-blocked", f"{name(gpu)}: {gpu.supply.passthrough_blocked}")


def in_use(gpu: GpuState) -> Reason | None:
    """A GPU is given whole only when nothing lives on it and all its slots are free."""
    if gpu.empty:
        return None
    units, free = gpu.supply.units, len(gpu.free)
    holds = f"{_holders(gpu)}{units - free} of {units} units taken"
    text = f"passthrough needs an empty GPU: {name(gpu)} has {holds}"
    return no_gpu(gpu, "in-use", text, users=gpu.used, taken=units - free, units=units)


def given_whole(gpu: GpuState, offer: Offer) -> Reason | None:
    """No vGPU on a GPU that a VM has as a whole."""
    if not gpu.whole:
        return None
    usages = gpu.supply.usages
    holders = (u.vm or u.foreign for u in usages if u.framework is Framework.PASSTHROUGH)
    holder = next(holders, "") or "a VM placed before"
    text = f"{name(gpu)} is given whole to {holder}, no room for {offer.profile}"
    return no_gpu(gpu, "given-whole", text, holder=holder)


def same_size(gpu: GpuState, offer: Offer) -> Reason | None:
    """Without mixed-size mode the first vGPU fixes the size of all on that GPU."""
    if not gpu.supply.same_size or not gpu.classes:
        return None
    for size_class, count in gpu.classes.items():
        if size_class != offer.size_class:
            held, size = _size_of(gpu, size_class), format_mib(offer.memory_mib)
            text = (
                f"same-size rule: {name(gpu)} holds {held} vGPUs ({count} of them), "
                f"{offer.profile} is {size}"
            )
            return no_gpu(gpu, "same-size", text, holds=held, count=count, size=size)
    return None


def max_per_vm(gpu: GpuState, offer: Offer, asked: int) -> Reason | None:
    """The driver limits how many vGPUs one VM has; a limit of 1 allows no second of any kind."""
    most = offer.max_per_vm
    if asked <= most:
        return None
    text = f"{offer.profile} on {name(gpu)} allows {most} in one VM, {asked} vGPUs are asked for"
    return no_gpu(gpu, "max-per-vm", text, most=most, asked=asked)


def max_instances(gpu: GpuState, offer: Offer) -> Reason | None:
    """The most instances of one profile on one GPU."""
    live, most = gpu.live.get(offer.profile, 0), offer.max_instances
    if live < most:
        return None
    text = f"{name(gpu)} holds {live} {offer.profile}, {most} is the most"
    return no_gpu(gpu, "max-instances", text, live=live, most=most)


def driver_count(gpu: GpuState, offer: Offer) -> Reason | None:
    """The driver's own count of what it would still create is a ceiling."""
    left = _driver_left(gpu, offer)
    if left is None or left > 0:
        return None
    counted = gpu.supply.available[offer.type_id]
    made = gpu.made.get(offer.type_id, 0)
    text = (
        f"the driver of {name(gpu)} offers {counted} more {offer.profile} ({made} of them planned)"
    )
    return no_gpu(gpu, "driver-available", text, available=counted, planned=made)


def free_slots(gpu: GpuState, offer: Offer) -> Reason | None:
    """Enough memory slots; which ones does not matter."""
    free = len(gpu.free)
    if free >= offer.units:
        return None
    text = (
        f"{name(gpu)} has {free} of {gpu.supply.units} units free, "
        f"{offer.profile} takes {offer.units}"
    )
    return no_gpu(gpu, "free-slots", text, free=free, units=gpu.supply.units, need=offer.units)


def name(gpu: GpuState) -> str:
    """How a sentence names the GPU: model and device; a virtual parent has one name for both."""
    supply = gpu.supply
    return supply.model if supply.model == supply.device else f"{supply.model} {supply.device}"


def no_gpu(gpu: GpuState, code: str, text: str, **facts: int | str) -> Reason:
    """A Reason about this GPU."""
    supply = gpu.supply
    return Reason(
        code=code, host=gpu.host, text=text, gpu=supply.id, device=supply.device,
        model=supply.model, facts=facts,
    )  # fmt: skip


def _driver_left(gpu: GpuState, offer: Offer) -> int | None:
    counted = gpu.supply.available.get(offer.type_id)
    return None if counted is None else counted - gpu.made.get(offer.type_id, 0)


def _fit_in_slots(gpu: GpuState, offer: Offer) -> int:
    return len(gpu.free) // offer.units if offer.units else offer.max_instances


def _holders(gpu: GpuState) -> str:
    held = ", ".join(f"{count} × {profile}" for profile, count in gpu.live.items())
    return f"{held}, " if held else ""


def _size_of(gpu: GpuState, size_class: int) -> str:
    """Memory of a vGPU of that class; a foreign one of unknown class is said to be so."""
    for offer in gpu.offers.values():
        if offer.size_class == size_class and offer.profile in gpu.live:
            return format_mib(offer.memory_mib)
    same = (o.memory_mib for o in gpu.offers.values() if size_class and o.size_class == size_class)
    memory_mib = next(same, None)
    return "unknown-size" if memory_mib is None else format_mib(memory_mib)
