"""Layouts in JSON: what a GPU is declared to be, and the plan that makes it so."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from vgpumgr.model.codec import to_plain
from vgpumgr.model.layout import (
    POWER_DEFAULT,
    VFS_MAX,
    CreateInstance,
    DestroyInstance,
    GpuChange,
    GpuLayout,
    LayoutPlan,
    LockClocks,
    PartChange,
    ResetGpu,
    SchedulerTiming,
    SetMigMode,
    SetMixedSize,
    SetPowerLimit,
    SetScheduler,
    SetVfs,
)


class InstanceGoalItem(TypedDict):
    """A declared GPU instance; ``start`` null: anywhere."""

    profile: str
    start: int | None
    compute: list[str]


class SchedulerTimingItem(TypedDict):
    """The vGPU scheduler's time slice, or its frequency with the averaging factor; all null: the
    driver's own.
    """

    time_slice_ms: float | None
    frequency_hz: int | None
    averaging: int | None


def timing_item(timing: SchedulerTiming | None) -> SchedulerTimingItem | None:
    """The JSON of a timing."""
    if timing is None:
        return None
    slice_us = timing[0] if len(timing) == 1 else None
    frequency, averaging = timing if len(timing) == 2 else (None, None)
    return {
        "time_slice_ms": None if slice_us is None else slice_us / 1000,
        "frequency_hz": frequency,
        "averaging": averaging,
    }


class GoalItem(TypedDict):
    """The wanted partitioning of a GPU in the words of the YAML; what is left alone is left out."""

    mig: NotRequired[bool]
    vfs: NotRequired[int | str]
    mixed_size: NotRequired[bool]
    instances: NotRequired[list[InstanceGoalItem]]
    scheduler: NotRequired[str]
    scheduler_timing: NotRequired[SchedulerTimingItem]
    power_limit: NotRequired[int | str]
    locked_clocks: NotRequired[list[int]]


class ChangeItem(TypedDict):
    """One change of a GPU: ``kind`` says which, and what else there is depends on it."""

    kind: str
    enabled: NotRequired[bool]
    count: NotRequired[int]
    policy: NotRequired[str]
    timing: NotRequired[SchedulerTimingItem | None]
    id: NotRequired[int]
    profile: NotRequired[str]
    profile_id: NotRequired[int]
    start: NotRequired[int]
    size: NotRequired[int]
    compute: NotRequired[list[int]]
    watts: NotRequired[int]
    range: NotRequired[list[int]]
    before: NotRequired[int | list[int]]


class GpuChangeItem(TypedDict):
    """What applying a layout means for one GPU: how it is not as declared, and what is done, in
    order. ``keep`` is what its host keeps for its next boot. ``refused`` is why it cannot be done
    now, with the ``holders`` that stand in the way.
    """

    host: str
    gpu: str
    device: str
    model: str
    layout: str
    goal: GoalItem
    differences: list[str]
    changes: list[ChangeItem]
    keep: dict[str, Any] | None
    refused: str
    next: str
    holders: list[str]


class LayoutPlanItem(TypedDict):
    """What `layout apply` would do: ``changes`` counts the GPUs that would be changed,
    ``unchanged`` GPUs that are as declared.
    """

    name: str
    changes: int
    gpus: list[GpuChangeItem]
    unchanged: int
    warnings: list[str]


def goal_item(goal: GpuLayout) -> GoalItem:
    """The JSON of a goal."""
    plain: dict[str, Any] = to_plain(goal)
    if goal.vfs == VFS_MAX:
        plain["vfs"] = "max"
    if goal.power_limit == POWER_DEFAULT:
        plain["power_limit"] = "default"
    plain["scheduler_timing"] = timing_item(goal.scheduler_timing)
    item: GoalItem = {}
    item.update({name: value for name, value in plain.items() if value is not None})  # type: ignore[typeddict-item]
    return item


_VERBS = {
    SetMigMode: "set-mig-mode",
    SetVfs: "set-vfs",
    SetMixedSize: "set-mixed-size",
    SetScheduler: "set-scheduler",
    DestroyInstance: "destroy-instance",
    CreateInstance: "create-instance",
    ResetGpu: "reset-gpu",
    SetPowerLimit: "set-power-limit",
    LockClocks: "lock-clocks",
}


def layout_plan_item(plan: LayoutPlan) -> LayoutPlanItem:
    """The JSON of a plan."""
    return {
        "name": "layout",
        "changes": sum(bool(each.changes or each.keep) for each in plan.gpus),
        "gpus": [_gpu_item(each) for each in plan.gpus],
        "unchanged": plan.unchanged,
        "warnings": list(plan.warnings),
    }


def _gpu_item(gpu: GpuChange) -> GpuChangeItem:
    plain: GpuChangeItem = to_plain(gpu)
    changes = [change_item(each) for each in gpu.changes]
    return {**plain, "goal": goal_item(gpu.goal), "changes": changes}


def change_item(change: PartChange) -> ChangeItem:
    """The JSON of one change."""
    item: ChangeItem = {"kind": _VERBS[type(change)]}
    item.update(to_plain(change))
    if isinstance(change, SetScheduler):
        item["timing"] = timing_item(change.timing)
    return item
