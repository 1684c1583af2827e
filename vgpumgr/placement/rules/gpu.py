"""Rules a GPU must pass to hold one part of a VM, in the order they are tried.

Each rule returns None, or the Reason with its numbers.
"""

from __future__ import annotations

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Offer, Reason
from vgpumgr.model.size import format_mib
from vgpumgr.placement.demand import Demand, Kind
from vgpumgr.placement.gpu_state import GpuState, Verdict
from vgpumgr.placement.offers import whole
from vgpumgr.placement.rules.offer import not_offered
from vgpumgr.placement.rules.space import free_space
from vgpumgr.placement.rules.words import PLACED_BEFORE, holder, name, no_gpu


def refuse_gpu(gpu: GpuState, kind: Kind, demand: Demand) -> Reason | None:
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


def judge(gpu: GpuState, offer: Offer, vgpus: int) -> Verdict:
    """The first rule that ``offer`` fails on this GPU, for a VM with ``vgpus`` vGPUs in all.

    If there is none, the places where it may lie, best first: at least one.
    """
    key = offer.profile, offer.type_id, vgpus
    verdict = gpu.known.get(key)
    if verdict is None:
        verdict = gpu.known[key] = _refuse(gpu, offer, vgpus) or gpu.spots(offer)
    return verdict


def _refuse(gpu: GpuState, offer: Offer, vgpus: int) -> Reason | None:
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


def blocked(gpu: GpuState) -> Reason | None:
    """Quarantined, missing, driver gone: the supply says it in a sentence."""
    if not gpu.supply.blocked:
        return None
    return no_gpu(gpu, "gpu-blocked", f"{name(gpu)}: {gpu.supply.blocked}")


def passthrough_blocked(gpu: GpuState) -> Reason | None:
    """IOMMU off, group shared, console device: only the whole GPU may not be given."""
    if not gpu.supply.passthrough_blocked:
        return None
    return no_gpu(gpu, "passthrough-blocked", f"{name(gpu)}: {gpu.supply.passthrough_blocked}")


def in_use(gpu: GpuState) -> Reason | None:
    """A GPU is given whole only when nothing lives on it and all its slots are free."""
    if gpu.empty:
        return None
    units, taken = gpu.supply.units, gpu.supply.units - gpu.grid.free.bit_count()
    instances = len(gpu.grid.instances)
    holds = f"{instances} GPU instances, " if instances else ""
    holds += f"{_live(gpu)}{taken} of {units} units taken"
    text = f"passthrough needs an empty GPU: {name(gpu)} has {holds}"
    return no_gpu(gpu, "in-use", text, users=gpu.used, taken=taken, units=units)


def given_whole(gpu: GpuState, offer: Offer) -> Reason | None:
    """No vGPU on a GPU that a VM has as a whole."""
    if not gpu.whole:
        return None
    usages = (u for u in gpu.supply.usages if u.framework is Framework.PASSTHROUGH)
    who = holder(usages) or PLACED_BEFORE
    text = f"{name(gpu)} is passed through whole to {who}, no room for {offer.profile}"
    return no_gpu(gpu, "given-whole", text, holder=who)


def same_size(gpu: GpuState, offer: Offer) -> Reason | None:
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


def max_per_vm(gpu: GpuState, offer: Offer, asked: int) -> Reason | None:
    """The driver limits how many vGPUs one VM has; a limit of 1 allows no second of any kind."""
    most = offer.max_per_vm
    if asked <= most:
        return None
    text = f"{offer.profile} on {name(gpu)} allows {most} in one VM, {asked} vGPUs are requested"
    return no_gpu(gpu, "max-per-vm", text, most=most, asked=asked)


def max_instances(gpu: GpuState, offer: Offer) -> Reason | None:
    """The most instances of one profile on one GPU; for MIG the instances themselves count."""
    live, most = gpu.count(offer.profile), offer.max_instances
    if live < most or offer.instance is not None:
        return None
    text = f"{name(gpu)} holds {live} {offer.profile}, {most} is the most"
    return no_gpu(gpu, "max-instances", text, live=live, most=most)


def driver_count(gpu: GpuState, offer: Offer) -> Reason | None:
    """The driver's own count of what it would still create is a ceiling."""
    left = gpu.driver_left(offer)
    if left is None or left > 0:
        return None
    counted = gpu.supply.available[offer.type_id]
    made = gpu.made(offer.type_id)
    planned = f" ({made} of them planned)" if made else ""
    text = f"the driver of {name(gpu)} offers {counted} more {offer.profile}{planned}"
    return no_gpu(gpu, "driver-available", text, available=counted, planned=made)


def free_vf(gpu: GpuState, offer: Offer) -> Reason | None:
    """On an SR-IOV GPU each vGPU takes a virtual function."""
    if not offer.needs_vf or gpu.vfs:
        return None
    planned = f" ({gpu.vfs_taken} were, and are planned)" if gpu.vfs_taken else ""
    text = f"no VF of {name(gpu)} is free{planned}, {offer.profile} takes one"
    return no_gpu(gpu, "no-vf", text, free=0, planned=gpu.vfs_taken)


def _live(gpu: GpuState) -> str:
    held = ", ".join(f"{count} × {profile}" for profile, count in gpu.live.items())
    return f"{held}, " if held else ""


def _size_of(gpu: GpuState, size_class: int) -> str:
    """Memory of a vGPU of that class; a foreign one of unknown class is said to be so."""
    offers = [o for o in gpu.supply.offers if o.size_class == size_class and not whole(o)]
    held = gpu.live
    live = [offer for offer in offers if offer.profile in held]
    named = live or (offers if size_class else [])
    return format_mib(named[0].memory_mib) if named else "unknown-size"
