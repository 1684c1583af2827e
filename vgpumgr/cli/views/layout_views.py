"""Layouts and the changes that apply them, as printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.formats import counted
from vgpumgr.model.layout import (
    VFS_MAX,
    CreateInstance,
    DestroyInstance,
    GpuChange,
    GpuLayout,
    InstanceGoal,
    LayoutPlan,
    PartChange,
    SetMigMode,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)

_VERBS = {
    SetMigMode: "set-mig-mode",
    SetVfs: "set-vfs",
    SetMixedSize: "set-mixed-size",
    SetScheduler: "set-scheduler",
    DestroyInstance: "destroy-instance",
    CreateInstance: "create-instance",
}


def goal_item(goal: GpuLayout) -> dict[str, Any]:
    """The JSON of a goal, in the words of the YAML; parts that are left alone are left out."""
    plain: dict[str, Any] = to_plain(goal)
    if goal.vfs == VFS_MAX:
        plain["vfs"] = "max"
    return {name: value for name, value in plain.items() if value is not None}


def goal_text(goal: GpuLayout) -> str:
    """``mig: true, vfs: max, instances: 3g.40gb ×2``."""
    shown = goal_item(goal)
    if goal.instances is not None:
        shown["instances"] = _instances_text(goal.instances)
    return ", ".join(f"{name}: {_yaml(value)}" for name, value in shown.items())


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _instances_text(goals: Sequence[InstanceGoal]) -> str:
    counts: dict[str, int] = {}
    for goal in goals:
        counts[_instance_text(goal)] = counts.get(_instance_text(goal), 0) + 1
    return " + ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items()) or "none"


def _instance_text(goal: InstanceGoal) -> str:
    place = "" if goal.start is None else f" at {goal.start}"
    inside = f" with {', '.join(goal.compute)}" if goal.compute else ""
    return f"{goal.profile}{place}{inside}"


def change_text(change: PartChange) -> str:
    """What one change does: ``turn 16 VFs on``."""
    match change:
        case SetMigMode(enabled=on):
            return f"turn MIG mode {_word(on)} (resets the GPU if the driver requires it)"
        case SetVfs(count=0):
            return "turn the VFs off"
        case SetVfs(count=count):
            return f"turn {counted(count, 'VF')} on"
        case SetMixedSize(enabled=on):
            return f"turn mixed-size mode {_word(on)}"
        case SetScheduler(policy=policy):
            return f"set the scheduler to {policy}"
        case DestroyInstance():
            return f"destroy GPU instance {change.profile} at {change.start}"
        case CreateInstance():
            inside = (
                f" with {counted(len(change.compute), 'compute instance')}"
                if change.compute
                else ""
            )
            return f"create GPU instance {change.profile} at {change.start}{inside}"


def _word(on: bool) -> str:
    return "on" if on else "off"


def layout_plan_item(plan: LayoutPlan) -> dict[str, Any]:
    """The JSON of a plan."""
    return {
        "name": "layout",
        "changes": len(to_change(plan)),
        "gpus": [_gpu_item(each) for each in plan.gpus],
        "unchanged": plan.unchanged,
        "warnings": list(plan.warnings),
    }


def _gpu_item(gpu: GpuChange) -> dict[str, Any]:
    return {
        **to_plain(gpu),
        "goal": goal_item(gpu.goal),
        "changes": [{"kind": _VERBS[type(each)], **to_plain(each)} for each in gpu.changes],
    }


def to_change(plan: LayoutPlan) -> tuple[GpuChange, ...]:
    """The GPUs that would be changed, or kept for their host's next boot."""
    return tuple(gpu for gpu in plan.gpus if gpu.changes or gpu.keep)


def refused(plan: LayoutPlan) -> tuple[GpuChange, ...]:
    """The GPUs that cannot be changed now."""
    return tuple(gpu for gpu in plan.gpus if gpu.refused)


def layout_plan_text(plan: LayoutPlan) -> str:
    """A plan for people: how each GPU differs, and what would be done or stands in the way."""
    if not plan.gpus:
        known = plan.unchanged or not plan.warnings
        return f"nothing to change: {as_declared(plan)}" if known else as_declared(plan)
    lines = [line for alike in _alike(plan.gpus) for line in _lines(alike)]
    return "\n".join(
        [
            *lines,
            f"{counted(len(to_change(plan)), 'GPU')} to change, {len(refused(plan))} refused, "
            f"{plan.unchanged} as declared",
        ]
    )


def as_declared(plan: LayoutPlan) -> str:
    """``1 GPU is as declared``."""
    if not plan.unchanged and plan.warnings:
        return "none of the selected GPUs could be read"
    if not plan.unchanged:
        return "no GPU is selected (see its hosts, host_labels, model and devices)"
    return f"{counted(plan.unchanged, 'GPU')} {'is' if plan.unchanged == 1 else 'are'} as declared"


def _alike(gpus: Sequence[GpuChange]) -> Iterable[list[GpuChange]]:
    """GPUs of which the same is said, in the order in which the first of them comes."""
    found: dict[object, list[GpuChange]] = {}
    for gpu in gpus:
        said = (
            gpu.model,
            gpu.layout,
            gpu.differences,
            gpu.changes,
            gpu.keep,
            gpu.refused,
            gpu.holders,
        )
        found.setdefault(said, []).append(gpu)
    return found.values()


def _lines(alike: list[GpuChange]) -> Iterator[str]:
    first = alike[0]
    for host, group in groupby(alike, key=lambda gpu: gpu.host):
        devices = " ".join(gpu.device for gpu in group)
        yield f"{host}  {first.model}  {devices}  (layout {first.layout})"
    yield from (f"  differs  {each}" for each in first.differences)
    yield from (f"  will     {change_text(each)}" for each in first.changes)
    if first.keep:
        yield "  will     restore this at the host's next boot"
    if first.refused:
        yield f"  refused  {first.refused}"
        unnamed = [each for each in first.holders if each not in first.refused]
        if unnamed:
            yield f"  held by  {', '.join(unnamed)}"
        if first.next:
            yield f"  next     {first.next}"
