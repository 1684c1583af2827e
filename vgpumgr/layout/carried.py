"""What a change that was cut was to leave as it found it, carried over into the next plan.

The driver forgets VFs, GPU instances, mixed-size mode and the scheduler's policy when it lets go of
a GPU. A plan brings back those that its goal leaves alone; one that is made half-way does not see
them any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr.layout.beside import beside
from vgpumgr.layout.profiles import compute_names
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import (
    CreateInstance,
    GpuLayout,
    InstanceGoal,
    PartChange,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)


def carried(
    gpu: GpuFacts, goal: GpuLayout, before: GpuLayout, changes: Iterable[PartChange]
) -> GpuLayout:
    """The goal, with the parts that it leaves alone as the cut changes were to bring them back.

    ``before`` is the goal that was cut: what that one declared was not brought back but wanted, and
    is wanted no more. Parts that cannot be had beside what the goal declares are not carried.
    """
    return beside(goal, _brought_back(gpu, before, changes))


def _brought_back(gpu: GpuFacts, before: GpuLayout, changes: Iterable[PartChange]) -> GpuLayout:
    """The last word of the changes on each part that their own goal did not declare."""
    due = GpuLayout()
    for change in changes:
        match change:
            case SetVfs(count=count) if before.vfs is None:
                due = replace(due, vfs=count)
            case CreateInstance() if before.instances is None:
                due = replace(due, instances=(*(due.instances or ()), _as_goal(gpu, change)))
            case SetMixedSize(enabled=enabled) if before.mixed_size is None:
                due = replace(due, mixed_size=enabled)
            case SetScheduler(policy=policy) if before.scheduler is None:
                due = replace(due, scheduler=policy)
            case _:
                continue
    return due


def _as_goal(gpu: GpuFacts, made: CreateInstance) -> InstanceGoal:
    try:
        compute = compute_names(gpu, made.profile, made.compute)
    except KeyError:  # of a board that the catalogue does not know: whatever is made in it
        compute = ()
    return InstanceGoal(profile=made.profile, start=made.start, compute=compute)
