"""`vm shelve` and `vm unshelve`: GPU parts given back while disks are kept, and taken again."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.desktops.booked_capacity import placing_beside
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle, unfinished
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.quota_check import no_placement, within_quotas
from vgpumgr.engine.planning.spec_changes import refuse_resting
from vgpumgr.engine.planning.vm_plan import decide, reached
from vgpumgr.engine.reservation.shelf_reservations import (
    Stop,
    shelving,
    unshelve_request,
    unshelving,
)
from vgpumgr.model.operation import RESEAT, SHELVE, UNSHELVE
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

_FINISHED = frozenset({SHELVE, UNSHELVE, RESEAT})


def shelve(context: EngineContext, names: Sequence[str], stop: Stop) -> Outcome:
    """Stop VMs and give back what they hold; one that was in the queue has left it."""
    before = finish(context, names)
    vms = [context.ledger.vm(name) for name in names]
    unfinished.refuse_unfinished(context.ledger, vms)
    view = context.view()
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
    start = shelving(holding, view, context.opening(), stop, kind="vm stop", moves=moves)
    return before.then(operation_lifecycle.begin(context, start))


def finish(context: EngineContext, names: Sequence[str]) -> Outcome:
    """Go on with what was cut of these VMs' ways to the shelf and back, and to other GPUs."""
    return operation_lifecycle.finish_leftovers(context, _wanted(context, names), _FINISHED)


def _wanted(context: EngineContext, names: Sequence[str]) -> dict[str, VmSpec]:
    return {name: context.ledger.vm(name).spec for name in names}


def unshelve(context: EngineContext, vms: Sequence[VmRecord]) -> Outcome:
    """Place shelved VMs anew on their hosts and start them: all, or NoPlacement and none."""

    def attempt() -> Outcome:
        view = context.view()
        refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
        requests = [unshelve_request(vm) for vm in vms]
        place = placing_beside(context.place, context.ledger, context.clock.now())
        decided = within_quotas(view, decide(view, requests, place))
        misfits = [each for each in decided if isinstance(each, NotPlaced)]
        if misfits:
            raise no_placement(misfits)
        placed = {
            vm.id: each for vm, each in zip(vms, decided, strict=True) if isinstance(each, Placed)
        }
        queued, moves = _in_the_queue(context, view, vms)
        start = unshelving(
            placed, view, context.opening(), kind="vm start", queued=queued, moves=moves
        )
        return operation_lifecycle.begin(context, start)

    return until_current(attempt)


def _in_the_queue(
    context: EngineContext, view: LedgerView, vms: Sequence[VmRecord]
) -> tuple[list[QueueEntry], list[QueueMoved]]:
    """One that waited does so no more; one that has ended runs again."""
    waiting = {each.vm_id: each for each in view.queue if each.vm_id}
    now = context.clock.now()
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
            id=context.new_uuid(),
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
