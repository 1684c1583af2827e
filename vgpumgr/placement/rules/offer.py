"""Whether a GPU makes what is asked for at all, by model, name, size and framework."""

from __future__ import annotations

from vgpumgr.model.placement import Reason
from vgpumgr.model.size import format_mib
from vgpumgr.placement.demand import Kind
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.offers import named
from vgpumgr.placement.rules.words import name, no_gpu

# Boards make up to forty profiles: a sentence names a few of them.
_NAMED = 5


def not_offered(gpu: GpuState, kind: Kind) -> Reason | None:
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


def other_model(gpu: GpuState, kind: Kind) -> Reason | None:
    """The request names a GPU model."""
    if kind.allows(gpu.supply.model):
        return None
    wanted = " or ".join(kind.models)
    return no_gpu(gpu, "model", f"{name(gpu)} is not of model {wanted}", wanted=wanted)


def other_framework(gpu: GpuState, kind: Kind) -> Reason | None:
    """The request names a framework, and this GPU has the profile through another one."""
    there = dict.fromkeys(str(offer.framework) for offer in named(gpu.supply.offers, kind))
    if not there or kind.framework is None:
        return None
    what, through = kind.profile or format_mib(kind.memory_mib), ", ".join(there)
    text = f"{name(gpu)} provides {what} through {through}, {kind.framework} is requested"
    return no_gpu(gpu, "framework", text, wanted=kind.framework, offered=through)


def needs_layout(gpu: GpuState, kind: Kind) -> Reason | None:
    """Only the way the GPU is laid out keeps it from making the profile."""
    lines = gpu.supply.could.get(kind.profile)
    if lines is None:
        return None
    text = f"{name(gpu)} could provide {kind.profile} with a layout: {lines}"
    return no_gpu(gpu, "needs-layout", text, wanted=kind.profile, layout=lines)


def too_small(gpu: GpuState, kind: Kind) -> Reason | None:
    """By size: the largest that it makes has less memory."""
    if kind.profile:
        return None
    wanted = format_mib(kind.memory_mib)
    largest = max(gpu.supply.offers, key=lambda offer: offer.memory_mib, default=None)
    has = f"{largest.profile} with {format_mib(largest.memory_mib)}" if largest else "nothing"
    text = f"{name(gpu)} has no profile of {wanted} or more (its largest is {has})"
    return no_gpu(gpu, "gpu-memory", text, wanted_mib=kind.memory_mib, largest=has)


def no_such_profile(gpu: GpuState, kind: Kind) -> Reason:
    """The profile is none of this board's."""
    profiles = tuple(dict.fromkeys(offer.profile for offer in gpu.supply.offers))
    offered = ", ".join(profiles) or "nothing"
    more = f" and {len(profiles) - _NAMED} more" if len(profiles) > _NAMED else ""
    some = ", ".join(profiles[:_NAMED]) or "nothing"
    why = f": {gpu.supply.no_mig_vgpus}" if gpu.supply.no_mig_vgpus else ""
    text = f"{name(gpu)} does not offer {kind.profile} (it offers {some}{more}{why})"
    return no_gpu(gpu, "profile", text, wanted=kind.profile, offered=offered)
