"""The reset of a GPU between two of its partitionings: what it takes, and how it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vgpumgr.layout import target
from vgpumgr.model.gpu import GpuFacts, GpuHealth
from vgpumgr.model.layout import DRIVERS_TIMING, Scheduler
from vgpumgr.model.operation import Differs, Observed


def apply(gpu: GpuFacts) -> GpuFacts:
    """GPU instances and mixed-size mode are gone (behaviour §7, §8), the scheduler is the driver's
    own where it tells of one.
    """
    scheduler = None if gpu.scheduler is None else str(Scheduler.BEST_EFFORT)
    timing = None if gpu.scheduler_timing is None else DRIVERS_TIMING
    return replace(target.after_rebind(gpu), scheduler=scheduler, scheduler_timing=timing)


def verb() -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "gpu_reset", {}


def look() -> Observed:
    """No GPU tells when it was reset: a cut one is reset once more, since nothing uses it."""
    return Differs("it is not told whether it was reset")


def summary() -> str:
    """A line for people."""
    return "reset the GPU"


def is_resettable(gpu: GpuFacts) -> str:
    """Why the driver cannot reset it; empty where it can be asked to."""
    if gpu.health is GpuHealth.LOST:
        return "it fell off the bus: only a restart of the host may bring it back"
    if gpu.driver != "nvidia":
        return f"its driver is {gpu.driver or 'none'}, and NVIDIA's resets it"
    return ""
