"""Layouts and the changes that apply them, as printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from vgpumgr.endpoints.layout_items import (
    ChangeItem,
    GoalItem,
    GpuChangeItem,
    InstanceGoalItem,
    LayoutPlanItem,
    SchedulerTimingItem,
)
from vgpumgr.model.formats import counted


def goal_text(goal: GoalItem) -> str:
    """``mig: true, vfs: max, instances: 3g.40gb ×2``."""
    shown: dict[str, object] = {**goal}
    if "instances" in goal:
        shown["instances"] = _instances_text(goal["instances"])
    if "scheduler_timing" in goal:
        shown["scheduler_timing"] = timing_text(goal["scheduler_timing"])
    return ", ".join(f"{name}: {_yaml(value)}" for name, value in shown.items())


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _instances_text(goals: Sequence[InstanceGoalItem]) -> str:
    counts: dict[str, int] = {}
    for goal in goals:
        counts[_instance_text(goal)] = counts.get(_instance_text(goal), 0) + 1
    return " + ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items()) or "none"


def _instance_text(goal: InstanceGoalItem) -> str:
    place = "" if goal["start"] is None else f" at {goal['start']}"
    inside = f" with {', '.join(goal['compute'])}" if goal["compute"] else ""
    return f"{goal['profile']}{place}{inside}"


def change_text(change: ChangeItem) -> str:
    """What one change does: ``turn 16 VFs on``."""
    match change["kind"]:
        case "set-mig-mode":
            mode = _word(change["enabled"])
            return f"turn MIG mode {mode} (resets the GPU if the driver requires it)"
        case "set-vfs":
            count = change["count"]
            return f"turn {counted(count, 'VF')} on" if count else "turn the VFs off"
        case "set-mixed-size":
            return f"turn mixed-size mode {_word(change['enabled'])}"
        case "set-scheduler":
            return f"set the scheduler to {scheduler_text(change['policy'], change.get('timing'))}"
        case "destroy-instance":
            return f"destroy GPU instance {change['profile']} at {change['start']}"
        case "reset-gpu":
            return "reset the GPU"
        case "set-power-limit":
            return f"set the power limit to {change['watts']} W"
        case "lock-clocks":
            return _clocks_text(change["range"])
        case _:
            computes = len(change["compute"])
            inside = f" with {counted(computes, 'compute instance')}" if computes else ""
            return f"create GPU instance {change['profile']} at {change['start']}{inside}"


def scheduler_text(policy: str, timing: SchedulerTimingItem | None) -> str:
    """``equal-share, slices of 4 ms``; without a timing the policy alone."""
    return policy if timing is None else f"{policy}, {timing_text(timing)}"


def timing_text(timing: SchedulerTimingItem) -> str:
    """``slices of 4 ms``, ``480 Hz, averaging 33``, or the driver's own."""
    if timing["time_slice_ms"] is not None:
        return f"slices of {timing['time_slice_ms']:g} ms"
    if timing["frequency_hz"] is not None:
        return f"{timing['frequency_hz']} Hz, averaging {timing['averaging']}"
    return "the driver's own timing"


def _clocks_text(found: Sequence[int]) -> str:
    return f"lock the clocks to {found[0]} to {found[1]} MHz" if found else "unlock the clocks"


def _word(on: bool) -> str:
    return "on" if on else "off"


def to_change(plan: LayoutPlanItem) -> list[GpuChangeItem]:
    """The GPUs that would be changed, or kept for their host's next boot."""
    return [gpu for gpu in plan["gpus"] if gpu["changes"] or gpu["keep"] is not None]


def refused(plan: LayoutPlanItem) -> list[GpuChangeItem]:
    """The GPUs that cannot be changed now."""
    return [gpu for gpu in plan["gpus"] if gpu["refused"]]


def layout_plan_text(plan: LayoutPlanItem) -> str:
    """A plan for people: how each GPU differs, and what would be done or stands in the way."""
    if not plan["gpus"]:
        known = plan["unchanged"] or not plan["warnings"]
        return f"nothing to change: {as_declared(plan)}" if known else as_declared(plan)
    lines = [line for alike in _alike(plan["gpus"]) for line in _lines(alike)]
    return "\n".join(
        [
            *lines,
            f"{counted(len(to_change(plan)), 'GPU')} to change, {len(refused(plan))} refused, "
            f"{plan['unchanged']} as declared",
        ]
    )


def as_declared(plan: LayoutPlanItem) -> str:
    """``1 GPU is as declared``."""
    unchanged = plan["unchanged"]
    if not unchanged and plan["warnings"]:
        return "none of the selected GPUs could be read"
    if not unchanged:
        return "no GPU is selected (see its hosts, host_labels, model and devices)"
    return f"{counted(unchanged, 'GPU')} {'is' if unchanged == 1 else 'are'} as declared"


def _alike(gpus: Sequence[GpuChangeItem]) -> Iterable[list[GpuChangeItem]]:
    """GPUs of which the same is said, in the order in which the first of them comes."""
    found: dict[str, list[GpuChangeItem]] = {}
    for gpu in gpus:
        said = (
            gpu["model"],
            gpu["layout"],
            gpu["differences"],
            gpu["changes"],
            gpu["keep"],
            gpu["refused"],
            gpu["holders"],
        )
        found.setdefault(repr(said), []).append(gpu)
    return found.values()


def _lines(alike: list[GpuChangeItem]) -> Iterator[str]:
    first = alike[0]
    for host, group in groupby(alike, key=lambda gpu: gpu["host"]):
        devices = " ".join(gpu["device"] for gpu in group)
        yield f"{host}  {first['model']}  {devices}  (layout {first['layout']})"
    yield from (f"  differs  {each}" for each in first["differences"])
    yield from (f"  will     {change_text(each)}" for each in first["changes"])
    if first["keep"] is not None:
        yield "  will     restore this at the host's next boot"
    if first["refused"]:
        yield f"  refused  {first['refused']}"
        unnamed = [each for each in first["holders"] if each not in first["refused"]]
        if unnamed:
            yield f"  held by  {', '.join(unnamed)}"
        if first["next"]:
            yield f"  next     {first['next']}"
