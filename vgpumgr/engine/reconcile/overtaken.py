"""A start, stop or reboot that was cut gives way to whatever was asked of the VM since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.running.leftovers import unfinished
from vgpumgr.model.journal import OperationRecord, TaskMoved, TaskRecord, TaskState
from vgpumgr.model.ports import Ledger

_POWER = frozenset({"start", "stop", "reboot"})
_REASON = "superseded by a newer operation on this VM"


def give_way(
    ledger: Ledger, operation: OperationRecord, tasks: Sequence[TaskRecord]
) -> tuple[TaskRecord, ...]:
    """The operation's tasks, where those that a newer one has overtaken are ended as failed."""
    power = {task.vm_id for task in unfinished(tasks) if task.verb in _POWER}
    newer = _asked_since(ledger, operation.id) if power else frozenset()
    old = {t.id for t in unfinished(tasks) if t.verb in _POWER and t.vm_id in newer}
    moved = [TaskMoved(task=each, state=TaskState.FAILED, error=_REASON) for each in sorted(old)]
    if moved:
        ledger.record(*moved)
    return tuple(
        replace(task, state=TaskState.FAILED, error=_REASON) if task.id in old else task
        for task in tasks
    )


def _asked_since(ledger: Ledger, operation: str) -> frozenset[str]:
    """VMs that newer operations are about. The order is the ledger's, not that of any clock."""
    found: set[str] = set()
    for newer in ledger.operations():
        if newer.id == operation:
            break
        found.update(task.vm_id for task in ledger.tasks(newer.id))
    return frozenset(found)
