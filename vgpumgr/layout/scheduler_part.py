"""The vGPU scheduler's policy as a part of a layout, which the driver forgets on a rebind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import (
    DRIVERS_TIMING,
    GpuLayout,
    Scheduler,
    SchedulerTiming,
    SetScheduler,
)
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def chosen(gpu: GpuFacts) -> Scheduler | None:
    """The policy that somebody chose: best effort is what the driver starts with."""
    policy = Scheduler(gpu.scheduler) if gpu.scheduler else None
    return None if policy is Scheduler.BEST_EFFORT else policy


def chosen_timing(gpu: GpuFacts) -> SchedulerTiming | None:
    """The timing that was chosen; None where it is the driver's own, or not told."""
    return gpu.scheduler_timing if chosen(gpu) is not None and gpu.scheduler_timing else None


def switch(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetScheduler]:
    """The change that is due; after a rebind the policy is not known and is set again."""
    if wanted.scheduler is None:
        return
    if gpu.scheduler != wanted.scheduler or _is_timed_otherwise(gpu, wanted.scheduler_timing):
        yield SetScheduler(policy=wanted.scheduler, timing=wanted.scheduler_timing)


def _is_timed_otherwise(gpu: GpuFacts, wanted: SchedulerTiming | None) -> bool:
    return wanted is not None and gpu.scheduler_timing != wanted


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How policy and timing are not as declared."""
    if goal.scheduler is None:
        return
    if gpu.scheduler != goal.scheduler:
        yield f"scheduler: {gpu.scheduler or 'cannot be read'}, wanted {goal.scheduler}"
    elif goal.scheduler_timing is not None and _is_timed_otherwise(gpu, goal.scheduler_timing):
        there = gpu.scheduler_timing
        now = "cannot be read" if there is None else timing_text(there)
        yield f"scheduler: {now}, wanted {timing_text(goal.scheduler_timing)}"


def timing_text(timing: SchedulerTiming) -> str:
    """``slices of 4 ms``, ``480 Hz on average of 51``, or the driver's own."""
    match timing:
        case (slice_us,):
            return f"slices of {slice_us / 1000:g} ms"
        case (frequency, averaging):
            return f"{frequency} Hz, averaging {averaging}"
        case _:
            return "the driver's own timing"


def refuse(gpu: GpuFacts, goal: GpuLayout, wanted: TargetState) -> None:
    """LayoutRefused where there is no policy to choose, and for fixed share of mixed sizes."""
    if goal.scheduler is not None:
        _refuse_without(gpu, goal.scheduler, wanted)
        _refuse_untimed(gpu, goal)
    if wanted.mixed_size and wanted.scheduler is Scheduler.FIXED_SHARE:
        raise LayoutRefused(
            f"{gpu_name(gpu)} cannot have mixed sizes and fixed shares",
            why="vGPUs of different sizes have no equal share to fix",
            next="declare scheduler: best-effort or equal-share",
        )


def apply(gpu: GpuFacts, change: SetScheduler) -> GpuFacts:
    """The policy is as told, and so is its timing where it is."""
    timing = DRIVERS_TIMING if change.timing is None else change.timing
    return replace(gpu, scheduler=str(change.policy), scheduler_timing=timing)


def verb(change: SetScheduler) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    timing = {} if change.timing is None else {"timing": list(change.timing)}
    return "scheduler_set", {"policy": str(change.policy), **timing}


def look(seen: ReportedGpu, change: SetScheduler) -> Observed:
    """Is the policy in the wanted state?"""
    policy = seen.nvml.get("scheduler") if seen.nvml else None
    if policy is None:
        return Unknown("the scheduler's policy could not be read")
    if policy != change.policy:
        return Differs(f"the scheduler is {policy}")
    there = seen.nvml.get("scheduler_timing") if seen.nvml else None
    if change.timing is not None and list(change.timing) != there:
        return Differs(f"the scheduler's timing is {there}")
    return InState()


def summary(change: SetScheduler) -> str:
    """A line for people."""
    timing = "" if change.timing is None else f", {timing_text(change.timing)}"
    return f"set the scheduler to {change.policy}{timing}"


def _refuse_without(gpu: GpuFacts, policy: Scheduler, wanted: TargetState) -> None:
    """A driver may answer only with MIG off and VFs on; then the change itself will tell."""
    if gpu.scheduler is None and gpu.uuid is None:
        raise unread(gpu, "the scheduler's policy")
    mig = gpu.mig is not None and gpu.mig.enabled
    if wanted.mig and not (mig and gpu.scheduler):
        raise _refused(gpu, "with MIG mode on its driver shows none", "declare mig: false")
    board = catalog.board(gpu.model)
    maxwell = board is not None and board.arch == "maxwell" and policy != gpu.scheduler
    silent = gpu.scheduler is None and not mig and bool(gpu.vfs or not wanted.vfs)
    if silent or maxwell:
        raise _refused(gpu, "its board or driver knows best effort alone", "leave scheduler out")


def _refuse_untimed(gpu: GpuFacts, goal: GpuLayout) -> None:
    """A helper or a driver that tells no timing could not be read back."""
    if goal.scheduler_timing is None or gpu.scheduler is None or gpu.scheduler_timing is not None:
        return
    raise LayoutRefused(
        f"{gpu_name(gpu)} tells no timing of its scheduler",
        why="its driver, or the helper of its host, is too old to read it back",
        next="vgpumgr host upgrade HOST, or leave scheduler_timing out",
    )


def _refused(gpu: GpuFacts, why: str, next_step: str) -> LayoutRefused:
    return LayoutRefused(f"{gpu_name(gpu)} has no choice of schedulers", why=why, next=next_step)
