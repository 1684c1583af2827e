"""How reasons name GPUs and what lives on them."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.placement import Reason, Usage
from vgpumgr.placement.geometry import Instance
from vgpumgr.placement.gpu_state import GpuState

PLACED_BEFORE = "a VM of the same request"


def name(gpu: GpuState) -> str:
    """Model and device; a virtual parent has one name for both."""
    supply = gpu.supply
    return supply.model if supply.model == supply.device else f"{supply.model} {supply.device}"


def no_gpu(gpu: GpuState, code: str, text: str, **facts: int | str) -> Reason:
    """A Reason about this GPU."""
    supply = gpu.supply
    return Reason(
        code=code, host=gpu.host, text=text, gpu=supply.id, device=supply.device,
        model=supply.model, facts=facts,
    )  # fmt: skip


def holder(usages: Iterable[Usage]) -> str:
    """The VMs and foreign things behind these usages; empty where there is none."""
    names = (f"VM {u.vm}" if u.vm else u.foreign or "a foreign user" for u in usages)
    return ", ".join(dict.fromkeys(names))


def holders(gpu: GpuState) -> str:
    """Who lives on the GPU, VMs placed before included."""
    known = holder(gpu.supply.usages)
    if gpu.used > len(gpu.supply.usages):
        known = f"{known}, {PLACED_BEFORE}" if known else PLACED_BEFORE
    return known


def instance_words(gpu: GpuState, instance: Instance) -> str:
    """A GPU instance with the VMs in it, or ``free``: ``1g.10gb at 0 (VM web-1)``."""
    supply = instance.supply
    inside = holder(u for u in gpu.supply.usages if u.start == supply.start)
    if instance.vgpus and (not inside or instance.vgpus > supply.vgpus):
        inside = f"{inside}, {PLACED_BEFORE}" if inside else PLACED_BEFORE
    return f"{supply.profile} at {supply.start} ({inside or supply.blocked or 'free'})"


def numbers(values: Iterable[int]) -> str:
    """``0, 4, 8``."""
    return ", ".join(str(value) for value in values)
