"""Spot VMs stopped for others."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.queue.deciding import Ready, looked_at
from vgpumgr.engine.use_cases.queue.shelving import shelve
from vgpumgr.model.queue import Reservation
from vgpumgr.model.queued import QueueMoved, QueueState


def make_room(
    session: Session, ready: Ready, kept: Sequence[Reservation]
) -> tuple[dict[str, str], Outcome]:
    """Stop the spot VMs that others need the room of; these start when it is theirs."""
    view, turn = looked_at(session, ready, kept)
    victims = {name: each.waiting.vm.name for each in turn.starts for name in each.preempts}
    vms = [vm for vm in view.vms if vm.name in victims]
    entries = {each.vm_id: each for each in view.queue}
    moves = [
        QueueMoved(
            entry=entries[vm.id].id,
            before=QueueState.RUNNING,
            state=QueueState.WAITING,
            why=f"preempted for {victims[vm.name]}",
            preempted=True,
        )
        for vm in vms
    ]
    return victims, shelve(session, view, vms, moves) if vms else Outcome()
