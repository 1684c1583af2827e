"""Operations as the reading commands show them: the journal, and whether a process works on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.journal import OperationRecord, TaskRecord

if TYPE_CHECKING:
    from vgpumgr.engine.running.outcome import Outcome
    from vgpumgr.engine.running.status import OperationStatus
    from vgpumgr.model.ports import Ledger


def operation_status(
    ledger: Ledger, found: OperationRecord, tasks: tuple[TaskRecord, ...] | None = None
) -> OperationStatus:
    """How it stands now; the tasks of one that has ended are not read for it."""
    from vgpumgr.engine.running.status import status

    if found.ended_at is not None:
        return status(found, (), worked_on=False, now=time.time())
    worked_on = ledger.is_worked_on(found.id)
    known = ledger.tasks(found.id) if tasks is None else tasks
    return status(found, known, worked_on=worked_on, now=time.time())


def operation_item(found: OperationRecord, how: OperationStatus) -> dict[str, Any]:
    """The JSON of an operation. ``state`` is what it is, by its journal and its worker's life."""
    return {
        "name": found.id,
        **to_plain(found),
        "state": str(how.word),
        "left_until": how.left_until,
        "note": how.note,
        "next": how.next,
    }


def undone_text(outcome: Outcome) -> str:
    """A line for each VM: what was undone, what stays, and what could not be undone."""
    from vgpumgr.model.journal import TaskState

    lines = []
    for vm in outcome.vms:
        why = f": {vm.error}" if vm.error else ""
        stays = " (kept: it had finished before)" if vm.state is TaskState.DONE else ""
        lines.append(f"{vm.vm}: {vm.state}{stays}{why}")
    return "\n".join(lines)
