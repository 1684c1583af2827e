"""The target state of a GPU's partitioning, its reported state, and the refusal of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.layout.instance_profiles import InstanceProfile
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, GpuInstance
from vgpumgr.model.layout import ClockRange, Scheduler, SchedulerTiming
from vgpumgr.model.supply import Usage


class LayoutRefused(Conflict):
    """``holders`` are the VMs and foreign things that stand in the way, where any do."""

    code = "conflict.layout"

    def __init__(
        self, message: str, *, why: str = "", next: str = "", holders: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, why=why, next=next)
        self.holders = holders


def gpu_name(gpu: GpuFacts) -> str:
    """How a sentence names the GPU: ``A100-PCIE-80GB 0000:41:00.0``."""
    return f"{gpu.model} {gpu.device}"


def unread(gpu: GpuFacts, what: str) -> LayoutRefused:
    """What could not be read is never taken for absent, and never changed."""
    return LayoutRefused(
        f"{what} of {gpu_name(gpu)} could not be read",
        why="what is not known is not changed",
        next="vgpumgr host probe HOST, then look at its unknown parts",
    )


def holder(usage: Usage) -> str:
    """The occupant: a VM of ours, or what kind of foreign thing it is."""
    return usage.vm or usage.foreign or usage.profile


def after_rebind(gpu: GpuFacts) -> GpuFacts:
    """GPU instances and mixed-size mode are gone, the scheduler's policy is the driver's choice,
    the power limit the board's default.

    Source: behaviour §4, §7, §8 (captures of a CubeCOS host; NVIDIA MIG User Guide).
    """
    return replace(
        gpu,
        mig=gpu.mig and replace(gpu.mig, instances=()),
        mixed_size=None if gpu.mixed_size is None else False,
        scheduler=None,
        scheduler_timing=None,
        power=gpu.power and replace(gpu.power, limit_w=gpu.power.default_w, locked_clocks=()),
    )


@dataclass(frozen=True, slots=True)
class ReportedGpu:
    """``device`` and ``nvml`` as docs/helper-protocol.md has them; None: not read."""

    device: Mapping[str, Any] | None
    nvml: Mapping[str, Any] | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> ReportedGpu:
        """From the verb's result."""
        return cls(answer.get("device"), answer.get("nvml"))

    @property
    def mig(self) -> Mapping[str, Any] | None:
        """MIG mode, profiles and instances."""
        return self.nvml.get("mig") if self.nvml else None

    @property
    def instances(self) -> list[Mapping[str, Any]] | None:
        """GPU instances."""
        return self.mig.get("instances") if self.mig else None

    @property
    def vfs(self) -> int | None:
        """How many VFs are on."""
        sriov = self.device.get("sriov") if self.device else None
        return len(sriov["vfs"]) if sriov and sriov.get("vfs") is not None else None


@dataclass(frozen=True, slots=True)
class TargetInstance:
    """One GPU instance. ``start`` None: any place. ``compute`` (CI profile ids) None: any."""

    profile: InstanceProfile
    start: int | None = None
    compute: tuple[int, ...] | None = None

    def keeps(self, instance: GpuInstance) -> bool:
        """Is this instance what is wanted?"""
        here = self.start in {None, instance.start}
        there = tuple(sorted(each.profile_id for each in instance.compute))
        same = instance.profile_id == self.profile.id
        return same and here and self.compute in {None, there}


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state to reach; a goal's open parts are wanted as they are now.

    ``scheduler``, its timing, ``power_limit`` and ``locked_clocks`` None leave the driver's
    default. ``fixed`` are GPU instances (made or still to be made) that belong to VMs: never
    touched, always in the way. ``used`` are first slices of instances that guests use.
    """

    mig: bool
    vfs: int
    mixed_size: bool
    scheduler: Scheduler | None
    instances: tuple[TargetInstance, ...] = ()
    fixed: tuple[GpuInstance, ...] = ()
    used: frozenset[int] = frozenset()
    power_limit: int | None = None
    locked_clocks: ClockRange | None = None
    scheduler_timing: SchedulerTiming | None = None
