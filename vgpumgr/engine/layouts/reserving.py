"""Everything that applying layouts writes before its first effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr import layout
from vgpumgr.engine.layouts import keeping
from vgpumgr.engine.layouts.goals import goals_of, meant
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import ChangePart
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.journal import LAYOUT, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.layout import (
    GpuChange,
    LayoutPlan,
    LayoutRecord,
    LayoutSpec,
)


def reservation(
    wanted: LayoutPlan,
    view: LedgerView,
    specs: Sequence[LayoutSpec] | None,
    opening: Opening,
) -> Reservation:
    """Everything ``layout apply`` writes before its first effect: a task per GPU that changes."""
    operation = opening.operation("layout apply")
    changes = {change.gpu: change for change in wanted.gpus if change.changes or change.keep}
    by_id, read = {gpu.id: gpu for gpu in view.gpus}, meant(view, specs)
    records = tuple(
        LayoutRecord(
            gpu=gpu,
            host=by_id[gpu].host,
            layout=name,
            goal=goal,
            operation=operation.id,
            settled=gpu not in changes or not changes[gpu].changes,
        )
        for gpu, (name, goal) in goals_of(view, specs).items()
        if gpu in read
    )
    written = tuple(each for each in records if each.gpu in changes or not _is_settled(each, view))
    return Reservation(
        operation=operation,
        tasks=tuple(
            _task(opening, operation, change, by_id[change.gpu]) for change in changes.values()
        ),
        layouts=written,
        gpu_generations={each.gpu: by_id[each.gpu].generation for each in written},
    )


def _is_settled(record: LayoutRecord, view: LedgerView) -> bool:
    """Is the same goal known as reached already? Else the new operation must be the one to say."""
    known = next((each for each in view.layouts if each.gpu == record.gpu), None)
    same = known is not None and replace(known, operation=record.operation) == record
    return same and record.settled


def _task(
    opening: Opening, operation: OperationRecord, change: GpuChange, gpu: GpuRecord
) -> TaskRecord:
    """The host knows of the layout before any part changes; the reservation raises generations."""
    kept = [] if change.keep is None else [keeping.step(change, change.keep, gpu.generation + 1)]
    work = [
        *kept,
        *(
            ChangePart(device=change.device, change=layout.to_plain(each))
            for each in change.changes
        ),
    ]
    return opening.task(
        operation, LAYOUT, work, vm_id=change.gpu, vm=named(change), host=change.host
    )


def named(change: GpuChange) -> str:
    """What a task of a GPU is called, where a VM's has the VM's name."""
    return f"{change.model} {change.device}"
