"""VMs whose guests have powered off: what they hold is given back."""

from __future__ import annotations

from vgpumgr.engine.queue.ending import ended
from vgpumgr.engine.running import leftovers
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.queue.shelving import shelve
from vgpumgr.model.queued import QueueMoved, QueueState


def end(session: Session) -> tuple[tuple[str, ...], Outcome]:
    """Whoever was off when seen last, and is so when asked once more."""
    seen = ended(session.view(), leftovers.worked_on(session.ledger))
    if not seen:
        return (), Outcome()
    fresh = session.refresh({vm.host for _, vm in seen}).facts
    view = session.view()
    before = {entry.id for entry, _ in seen}
    still = ended(view, leftovers.worked_on(session.ledger))
    off = [(entry, vm) for entry, vm in still if entry.id in before and vm.host in fresh]
    moves = [
        QueueMoved(
            entry=entry.id,
            before=QueueState.RUNNING,
            state=QueueState.ENDED,
            why="its guest has powered off",
        )
        for entry, _ in off
    ]
    if not off:
        return (), Outcome()
    return tuple(vm.name for _, vm in off), shelve(session, view, [vm for _, vm in off], moves)
