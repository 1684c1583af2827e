"""What an application writes of the queue: who begins to wait, who runs, who has left. Pure but for
the ids, which come from the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.engine.running.opening import Opening
from vgpumgr.model.plan import Plan
from vgpumgr.model.queued import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmSpec


def entries(
    plan: Plan,
    made: Iterable[VmRecord],
    changed: Iterable[VmRecord],
    queue: Sequence[QueueEntry],
    opening: Opening,
) -> tuple[tuple[QueueEntry, ...], tuple[QueueMoved, ...]]:
    """New entries, and moves of those that are there: a VM that waited runs once it is ``made``,
    and one that was ``changed`` may come in or leave.
    """
    waiting = {each.name: each for each in queue if each.state is QueueState.WAITING}
    running = {each.vm_id: each for each in queue if each.state is QueueState.RUNNING}
    new = [_waits(spec, opening) for spec in plan.entering]
    moves = []
    for vm in made:
        if vm.name in waiting:
            moves.append(
                QueueMoved(
                    entry=waiting[vm.name].id,
                    before=QueueState.WAITING,
                    state=QueueState.RUNNING,
                    vm_id=vm.id,
                )
            )
        elif vm.spec.queue is not None:
            new.append(_runs(vm, opening))
    for vm in changed:
        if vm.spec.queue is not None and vm.id not in running:
            new.append(_runs(vm, opening))
        elif vm.spec.queue is None and vm.id in running:
            left = QueueState.CANCELLED
            before, why = QueueState.RUNNING, "its file no longer has queue:"
            moves.append(QueueMoved(entry=running[vm.id].id, before=before, state=left, why=why))
    return tuple(new), tuple(moves)


def _waits(spec: VmSpec, opening: Opening) -> QueueEntry:
    return QueueEntry(id=opening.new_uuid(), vm=spec, state=QueueState.WAITING, since=opening.now)


def _runs(vm: VmRecord, opening: Opening) -> QueueEntry:
    return QueueEntry(
        id=opening.new_uuid(),
        vm=vm.spec,
        state=QueueState.RUNNING,
        since=opening.now,
        started_at=opening.now,
        vm_id=vm.id,
    )
