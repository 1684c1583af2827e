"""Tasks on hosts that were taken out of the fleet: nobody can end them any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.reconcile.claims import Close, OperationClaims
from vgpumgr.engine.running.leftovers import unfinished
from vgpumgr.model.journal import TaskMoved, TaskRecord, TaskState
from vgpumgr.model.ports import Ledger


def close_orphans(
    ledger: Ledger,
    claims: OperationClaims,
    tasks: Sequence[TaskRecord],
    enrolled: Collection[str],
    close: Close,
) -> None:
    """End an operation's tasks whose host is no longer enrolled: nothing of ours is left there.

    A host is taken out only when nothing is allocated on it.
    """
    gone = [task for task in unfinished(tasks) if task.host not in enrolled]
    if not gone:
        return
    with claims.hold(gone[0].operation, close) as reasons:
        if reasons is None:
            return
        why = {task.id: f"host {task.host} is no longer enrolled" for task in gone}
        ledger.record(
            *(
                TaskMoved(task=each, state=TaskState.FAILED, error=text)
                for each, text in why.items()
            )
        )
