"""VMs started, stopped, rebooted, shelved and deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.local_moves import move_within_host
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
    until_current,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.vm_admission import no_placement, within_quotas
from vgpumgr.engine.planning.vm_plan import MOST_NAMED, decide
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.shelf_reservations import (
    StopManner,
    shelve_reservation,
    unshelve_request,
    unshelve_reservation,
)
from vgpumgr.engine.reservation.vm_reservations import displaced, require_partitioned, require_whole
from vgpumgr.model.errors import Conflict, HostUnreachable, NoPlacement, StillRunning
from vgpumgr.model.operation import RESEAT, SHELVE, UNSHELVE
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


def delete(
    context: EngineContext, names: Sequence[str], *, keep_disks: bool, force: bool
) -> Outcome:
    """Delete VMs. A running one needs ``force``; an interrupted deletion goes on.

    A creation that never ended is undone: its VM was never there to be deleted.
    """
    wanted = {name: context.ledger.vm(name).spec for name in names}
    before = operation_lifecycle.finish_leftovers(context, wanted, {"delete"})
    if not force:
        _refuse_running(context, _alive(context, wanted))
    half_made = {vm.name for vm in _alive(context, wanted) if vm.state is VmState.RESERVED}
    operation_lifecycle.undo_unfinished(context, half_made)
    vms = _alive(context, wanted)
    operation_lifecycle.refuse_unfinished(context.ledger, vms)
    start = vm_reservations.delete_reservation(
        vms, context.view(), context.opening(), keep_disks=keep_disks
    )
    return before.then(operation_lifecycle.begin(context, start))


def _alive(context: EngineContext, names: Collection[str]) -> list[VmRecord]:
    """The VMs of these names that are not on their way out."""
    found = [vm for vm in context.ledger.vms() if vm.name in names]
    return [vm for vm in found if vm.state is not VmState.DELETING]


def _refuse_running(context: EngineContext, vms: Sequence[VmRecord]) -> None:
    """Conflict when a VM runs, or may run: deleting it needs ``--force``."""
    if not vms:
        return
    context.refresh({vm.host for vm in vms})
    seen = observed_domains(context.view())
    for vm in vms:
        if vm.host not in seen.hosts:
            raise HostUnreachable(
                f"cannot tell whether {vm.name} runs",
                why=f"host {vm.host} did not answer",
                next=f"vgpumgr host probe {vm.host}, or delete with --force",
            )
    names = [vm.name for vm in vms if (vm.host, vm.name) in seen.running]
    if names:
        said = " ".join(names) if len(names) <= MOST_NAMED else "NAME …"
        stop = f"vgpumgr vm stop {said}"
        raise StillRunning(
            f"still running: {', '.join(names[:MOST_NAMED])}"
            f"{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''}",
            stop=stop,
            next=f"vgpumgr vm delete {said} --force   (powers them off), or first {stop}",
        )


def start(context: EngineContext, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices and whatever else their hosts lost first; shelved VMs are placed
    anew.
    """
    before = finish(context, names)
    context.refresh({context.ledger.vm(name).host for name in names})
    view, vms = context.view(), [context.ledger.vm(name) for name in names]
    shelved = [vm for vm in vms if vm.state is VmState.SHELVED]
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    before = before.then(_place_anew(context, view, holding))
    view = context.view()
    require_whole(view, holding)
    require_partitioned(view, [vm.name for vm in holding])
    if shelved:
        operation_lifecycle.refuse_unfinished(context.ledger, vms)
        before = before.then(unshelve(context, shelved))
    rest = [vm.name for vm in holding if vm.name not in before.waiting]
    return before.then(power(context, rest, "start")) if rest else before


def _place_anew(context: EngineContext, view: LedgerView, vms: Sequence[VmRecord]) -> Outcome:
    """VMs that are off and do not get back their former parts get other GPUs of their host, where
    there is capacity; the others are refused, or tried in their places, as before.
    """
    outcome, running = Outcome(), observed_domains(view).running
    off = [vm for vm in vms if (vm.host, vm.name) not in running]
    for name, why in displaced(view, off).items():
        try:
            moved = move_within_host(context, name)
        except (Conflict, NoPlacement):
            continue
        moved.raise_for_failure()
        outcome = outcome.then(moved)
        context.tell(f"{name}: {why}; it is placed again: {_where(context, name)}")
    return outcome


def _where(context: EngineContext, name: str) -> str:
    view = context.view()
    known = {gpu.id: gpu.facts for gpu in view.gpus}
    mine = [each for each in view.allocations if each.vm == name]
    return ", ".join(
        f"{each.profile} on {known[each.gpu].model} {known[each.gpu].device} of {each.host}"
        for each in mine
    )


def power(
    context: EngineContext,
    names: Sequence[str],
    verb: str,
    *,
    force: bool = False,
    timeout_s: float = 60.0,
) -> Outcome:
    """``start``, ``stop`` or ``reboot``; with ``force`` the guest is not asked."""
    vms = [context.ledger.vm(name) for name in names]
    operation_lifecycle.refuse_unfinished(context.ledger, vms)
    if verb != "stop":
        refuse_shelved(vms)
    view = context.view()
    if verb != "stop":
        refuse_resting(((vm.name, vm.host) for vm in vms), observed_domains(view).resting)
    start = vm_reservations.power_reservation(
        vms, view, context.opening(), verb=verb, force=force, timeout_s=timeout_s
    )
    return operation_lifecycle.begin(context, start)


_FINISHED = frozenset({SHELVE, UNSHELVE, RESEAT})


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
        decided = within_quotas(view, decide(view, requests, place))
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
