"""VMs shelved: stopped and their GPU parts released; and placed anew at their next start."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    until_current,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.decisions import decide_with_layouts
from vgpumgr.engine.planning.placement_limits import within_limits
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.engine.reservation.shelf_reservations import (
    StopManner,
    shelve_reservation,
    unshelve_request,
    unshelve_reservation,
)
from vgpumgr.model.operation import OF_SNAPSHOTS, RESEAT, SHELVE, UNSHELVE
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

_FINISHED = frozenset({SHELVE, UNSHELVE, RESEAT, *OF_SNAPSHOTS})


def shelve(context: EngineContext, names: Sequence[str], stop: StopManner) -> Outcome:
    """Stop VMs and release their allocations; a VM in the queue leaves it."""
    before = finish(context, names)
    vms = [context.ledger.vm(name) for name in names]
    operation_lifecycle.refuse_unfinished(context.ledger, vms)
    view = context.view()
    refuse_resting(((vm.name, vm.host) for vm in vms), observed_domains(view).resting)
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    ids = {vm.id for vm in holding}
    moves = [
        QueueMoved(
            entry=each.id, before=each.state, state=QueueState.CANCELLED, why="stopped by request"
        )
        for each in view.queue
        if each.vm_id in ids
    ]
    start = shelve_reservation(holding, view, context.opening(), stop, kind="vm stop", moves=moves)
    return before.then(operation_lifecycle.begin(context, start))


def finish(context: EngineContext, names: Sequence[str]) -> Outcome:
    """Resume interrupted operations that shelve, unshelve or move these VMs to other GPUs."""
    return operation_lifecycle.finish_leftovers(context, _wanted(context, names), _FINISHED)


def _wanted(context: EngineContext, names: Sequence[str]) -> dict[str, VmSpec]:
    return {name: context.ledger.vm(name).spec for name in names}


def unshelve(context: EngineContext, vms: Sequence[VmRecord]) -> Outcome:
    """Place shelved VMs anew on their hosts and start them: all, or NoPlacement and none."""

    def attempt() -> Outcome:
        view = context.view()
        refuse_resting(((vm.name, vm.host) for vm in vms), observed_domains(view).resting)
        requests = [unshelve_request(vm) for vm in vms]
        place = place_beside_bookings(context.place, context.ledger, context.clock.now())
        decided = within_limits(view, decide_with_layouts(view, requests, place))
        misfits = [each for each in decided if isinstance(each, NotPlaced)]
        if misfits:
            raise no_placement(misfits)
        placed = {
            vm.id: each for vm, each in zip(vms, decided, strict=True) if isinstance(each, Placed)
        }
        queued, moves = _in_the_queue(context, view, vms)
        start = unshelve_reservation(
            placed, view, context.opening(), kind="vm start", queued=queued, moves=moves
        )
        return operation_lifecycle.begin(context, start)

    return until_current(attempt)


def _in_the_queue(
    context: EngineContext, view: LedgerView, vms: Sequence[VmRecord]
) -> tuple[list[QueueEntry], list[QueueMoved]]:
    """Queue entries of VMs that start by request: waiting entries run, ended VMs get new ones."""
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
