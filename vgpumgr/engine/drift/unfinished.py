"""Operations that were interrupted and that nobody goes on with."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpumgr.engine.drift.work import Work
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.journal import LAYOUT, OF_HOSTS, OF_IMAGES, TaskRecord


def drifts(work: Work, hosts: Collection[str]) -> Iterator[Drift]:
    """One per VM or GPU whose task has not ended."""
    for task in work.interrupted:
        if task.host in hosts:
            yield _drift(task)


def _drift(task: TaskRecord) -> Drift:
    layout = task.verb == LAYOUT
    command = "vgpumgr layout apply" if layout else f"vgpumgr operation resume {task.operation[:8]}"
    return Drift(
        kind=DriftKind.UNFINISHED,
        host=task.host,
        subject=f"operation {task.operation[:8]}",
        text=f"{task.verb} of {task.vm} was interrupted",
        next=command,
        gpu=task.vm_id if layout else "",
        vm="" if layout or task.verb in OF_HOSTS | OF_IMAGES else task.vm,
        wanted="ended",
        found=str(task.state),
    )
