"""Conditions under which a task that is written down must not run."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.steps import OFF
from vgpumgr.model.errors import Conflict, NotFound, NotPermitted, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import EVACUATE, LAYOUT, LEAVE, OF_HOSTS, TaskRecord, TaskState

# What may be done on a host in maintenance: nothing of it makes a VM run there.
_AT_REST = frozenset({LAYOUT, LEAVE, "stop", "delete", *OF_HOSTS})


def refusal(
    context: EngineContext, records: Mapping[str, HostRecord], task: TaskRecord
) -> VgpumgrError | None:
    """Why a task must not be resumed now. Undoing makes nothing run: it may."""
    if task.state is TaskState.UNDOING:
        return None
    resting = next((name for name in task.hosts if records[name].maintenance), None)
    if resting is not None and task.verb not in _AT_REST:
        return Conflict(
            f"{resting} is in maintenance",
            why=f"{task.verb} {task.vm} would change something there",
            next=f"vgpumgr host maintenance {resting} --off",
        )
    return _may_run(context, task) if task.verb == EVACUATE else None


def _may_run(context: EngineContext, task: TaskRecord) -> VgpumgrError | None:
    """A process that makes a VM run elsewhere has itself seen that it does not run there.

    The proof in the journal is of another moment: a host that answers again is asked.
    """
    try:
        lost = context.ledger.host(task.peer)
    except NotFound as error:
        return error
    if context.fencing.proof(lost) is not None:
        return None
    try:
        found = context.hosts.open(lost).domains.look(task.vm)
    except VgpumgrError as error:
        return NotPermitted(
            f"cannot tell whether {task.vm} runs on {lost.name}",
            why=f"it is no longer proven to be off, and does not answer: {error.message}",
            next=f"vgpumgr host evacuate {lost.name}",
        )
    ours = found and found.ownership and found.ownership.vm_id == task.vm_id
    if not found or not ours or found.state in OFF:
        return None
    return Conflict(
        f"{task.vm} is {found.state} on {lost.name}",
        why="that host is back, and somebody started the VM there",
        next=f"vgpumgr operation undo {task.operation[:8]}   (it stays on {lost.name})",
    )
