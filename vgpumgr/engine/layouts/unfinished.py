"""The goal of a GPU whose last change did not end: with what that one was to bring back."""

from __future__ import annotations

from vgpumgr import layout
from vgpumgr.engine import steps
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.journal import LAYOUT, TaskRecord
from vgpumgr.model.layout import GpuLayout, PartChange


def whole_goal(view: LedgerView, gpu: GpuRecord, goal: GpuLayout) -> GpuLayout:
    """The goal itself, unless a change was cut, given up or refused half-way."""
    cut = next((each for each in view.layouts if each.gpu == gpu.id and not each.settled), None)
    tasks = {
        task.operation: task for task in view.cut if task.verb == LAYOUT and task.vm_id == gpu.id
    }
    if cut is None or cut.operation not in tasks:
        return goal
    return layout.carried(gpu.facts, goal, cut.goal, _changes(tasks[cut.operation]))


def _changes(task: TaskRecord) -> list[PartChange]:
    work = map(steps.from_record, task.steps)
    return [layout.from_plain(step.change) for step in work if isinstance(step, steps.ChangePart)]
