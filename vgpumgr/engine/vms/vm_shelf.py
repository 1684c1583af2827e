"""`vm shelve` and `vm unshelve`: GPU parts given back while disks are kept, and taken again."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.desktops.booked_capacity import placing_beside
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle, unfinished
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.session import Session
from vgpumgr.engine.planning.quota_check import no_placement, within_quotas
from vgpumgr.engine.planning.spec_changes import refuse_resting
from vgpumgr.engine.planning.vm_plan import decide, reached
from vgpumgr.engine.reservation.shelf_reservations import Stop, shelving, unshelving, wish
from vgpumgr.model.operation import RESEAT, SHELVE, UNSHELVE
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

_FINISHED = frozenset({SHELVE, UNSHELVE, RESEAT})


def shelve(session: Session, names: Sequence[str], stop: Stop) -> Outcome:
    """Stop VMs and give back what they hold; one that was in the queue has left it."""
    before = finish(session, names)
    vms = [session.ledger.vm(name) for name in names]
    unfinished.refuse_unfinished(session.ledger, vms)
    view = session.view()
    refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    ids = {vm.id for vm in holding}
    moves = [
        QueueMoved(
            entry=each.id, before=each.state, state=QueueState.CANCELLED, why="stopped by request"
        )
        for each in view.queue
        if each.vm_id in ids
    ]
    start = shelving(holding, view, session.opening(), stop, kind="vm stop", moves=moves)
    return before.then(operation_lifecycle.begin(session, start))


def finish(session: Session, names: Sequence[str]) -> Outcome:
    """Go on with what was cut of these VMs' ways to the shelf and back, and to other GPUs."""
    return operation_lifecycle.finish_leftovers(session, _wanted(session, names), _FINISHED)


def _wanted(session: Session, names: Sequence[str]) -> dict[str, VmSpec]:
    return {name: session.ledger.vm(name).spec for name in names}


def unshelve(session: Session, vms: Sequence[VmRecord]) -> Outcome:
    """Place shelved VMs anew on their hosts and start them: all, or NoPlacement and none."""

    def attempt() -> Outcome:
        view = session.view()
        refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
        wishes = [wish(vm) for vm in vms]
        place = placing_beside(session.place, session.ledger, session.clock.now())
        decided = within_quotas(view, decide(view, wishes, place))
        misfits = [each for each in decided if isinstance(each, NotPlaced)]
        if misfits:
            raise no_placement(misfits)
        placed = {
            vm.id: each for vm, each in zip(vms, decided, strict=True) if isinstance(each, Placed)
        }
        queued, moves = _in_the_queue(session, view, vms)
        start = unshelving(
            placed, view, session.opening(), kind="vm start", queued=queued, moves=moves
        )
        return operation_lifecycle.begin(session, start)

    return until_current(attempt)


def _in_the_queue(
    session: Session, view: LedgerView, vms: Sequence[VmRecord]
) -> tuple[list[QueueEntry], list[QueueMoved]]:
    """One that waited does so no more; one that has ended runs again."""
    waiting = {each.vm_id: each for each in view.queue if each.vm_id}
    now = session.clock.now()
    moves = [
        QueueMoved(
            entry=waiting[vm.id].id,
            before=QueueState.WAITING,
            state=QueueState.RUNNING,
            vm_id=vm.id,
            why="started by request",
        )
        for vm in vms
        if vm.id in waiting
    ]
    again = [
        QueueEntry(
            id=session.new_uuid(),
            vm=vm.spec,
            state=QueueState.RUNNING,
            since=now,
            started_at=now,
            vm_id=vm.id,
            why="started by request",
        )
        for vm in vms
        if vm.id not in waiting and vm.spec.queue is not None
    ]
    return again, moves
