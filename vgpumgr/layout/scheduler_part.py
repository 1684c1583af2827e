"""The vGPU scheduler's policy as a part of a layout, which the driver forgets on a rebind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, Scheduler, SetScheduler
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def chosen(gpu: GpuFacts) -> Scheduler | None:
    """The policy that somebody chose: best effort is what the driver starts with."""
    policy = Scheduler(gpu.scheduler) if gpu.scheduler else None
    return None if policy is Scheduler.BEST_EFFORT else policy


def switch(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetScheduler]:
    """The change that is due; after a rebind the policy is not known and is set again."""
    if wanted.scheduler is not None and gpu.scheduler != wanted.scheduler:
        yield SetScheduler(policy=wanted.scheduler)


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How the policy is not as declared."""
    if goal.scheduler is not None and gpu.scheduler != goal.scheduler:
        yield f"scheduler: {gpu.scheduler or 'cannot be read'}, wanted {goal.scheduler}"


def refuse(gpu: GpuFacts, goal: GpuLayout, wanted: TargetState) -> None:
    """LayoutRefused where there is no policy to choose, and for fixed share of mixed sizes."""
    if goal.scheduler is not None:
        _refuse_without(gpu, goal.scheduler, wanted)
    if wanted.mixed_size and wanted.scheduler is Scheduler.FIXED_SHARE:
        raise LayoutRefused(
            f"{gpu_name(gpu)} cannot have mixed sizes and fixed shares",
            why="vGPUs of different sizes have no equal share to fix",
            next="declare scheduler: best-effort or equal-share",
        )


def apply(gpu: GpuFacts, change: SetScheduler) -> GpuFacts:
    """The policy is as told."""
    return replace(gpu, scheduler=str(change.policy))


def verb(change: SetScheduler) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "scheduler_set", {"policy": str(change.policy)}


def look(seen: ReportedGpu, change: SetScheduler) -> Observed:
    """Is the policy in the wanted state?"""
    policy = seen.nvml.get("scheduler") if seen.nvml else None
    if policy is None:
        return Unknown("the scheduler's policy could not be read")
    return InState() if policy == change.policy else Differs(f"the scheduler is {policy}")


def summary(change: SetScheduler) -> str:
    """A line for people."""
    return f"set the scheduler to {change.policy}"


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


def _refused(gpu: GpuFacts, why: str, next_step: str) -> LayoutRefused:
    return LayoutRefused(f"{gpu_name(gpu)} has no choice of schedulers", why=why, next=next_step)
