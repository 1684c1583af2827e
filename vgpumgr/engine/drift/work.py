"""What operations are doing meanwhile: their VMs and GPUs change under a look."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.engine.running.leftovers import unfinished
from vgpumgr.model.journal import OperationRecord, TaskRecord
from vgpumgr.model.ports import Ledger


@dataclass(frozen=True, slots=True)
class Work:
    """``busy`` are tasks that ran during the look, ``interrupted`` those nobody goes on with."""

    busy: tuple[TaskRecord, ...] = ()
    interrupted: tuple[TaskRecord, ...] = ()

    @property
    def touched(self) -> frozenset[str]:
        """Ids of VMs (of GPUs, for layouts) that need not be as their records say."""
        return frozenset(task.vm_id for task in (*self.busy, *self.interrupted))

    @property
    def names(self) -> frozenset[str]:
        """Their names: a VM that was deleted meanwhile has no record any more."""
        return frozenset(task.vm for task in (*self.busy, *self.interrupted))


def open_now(ledger: Ledger) -> frozenset[str]:
    """The operations that are open."""
    return frozenset(each.id for each in ledger.operations(open_only=True))


def work(ledger: Ledger, since: float, open_before: Collection[str]) -> Work:
    """What was worked on after ``since`` (Unix seconds), and what nobody works on any more.

    Only an operation that was open before the look can be interrupted: a newer one may not have
    been claimed yet by the process that has just begun it.
    """
    busy: list[TaskRecord] = []
    left: list[TaskRecord] = []
    for operation in ledger.operations():
        if operation.ended_at is not None and operation.ended_at <= since:
            continue
        tasks = ledger.tasks(operation.id)
        if operation.id in open_before and _is_interrupted(ledger, operation):
            left += unfinished(tasks)
        else:
            busy += tasks
    return Work(tuple(busy), tuple(left))


def _is_interrupted(ledger: Ledger, operation: OperationRecord) -> bool:
    if operation.ended_at is not None or ledger.is_worked_on(operation.id):
        return False
    # Its worker may have let go because it was done.
    return ledger.operation(operation.id).ended_at is None
