"""Alternates: other places, within the same operation, for VMs that a GPU or host refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.inventory.host_supply import ExcludedSupply
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.refusals import RefusedVm, retryable_vms
from vgpumgr.engine.planning.decisions import decide_with_layouts
from vgpumgr.engine.planning.disk_images import absent, check_images
from vgpumgr.engine.planning.placement_limits import within_limits
from vgpumgr.engine.planning.vm_plan import describe
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.shelf_reservations import unshelve_request, unshelve_reservation
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.errors import Interrupted, LedgerError, VgpumgrError
from vgpumgr.model.operation import UNSHELVE, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueMoved, QueueState
from vgpumgr.model.vm import VmSpec, VmState

_OF_ALL = (LedgerError, Interrupted)


Specs = Mapping[str, VmSpec]


def reserve_alternates(
    context: EngineContext, operation_id: str, specs: Specs
) -> tuple[TaskRecord, ...]:
    """New tasks of an open operation, reserved: one for each refused VM that fits at a place not
    tried yet. A VM that fits nowhere has none, and changes no other VM's refusal.

    ``specs`` are the specs known to this process, by name. The ledger keeps no cloud-init text of
    an undone VM: a VM with such text that neither they nor the queue know is left to the same
    command again.
    """
    operation = context.ledger.operation(operation_id)
    if operation.ended_at is not None:
        return ()
    tried = retryable_vms(context.ledger.tasks(operation.id), context.ledger.refusals(operation.id))
    more: list[TaskRecord] = []
    for _, group in groupby(sorted(tried, key=_alike), _alike):
        alike = list(group)
        try:
            more += until_current(lambda alike=alike: _reserved(context, operation, alike, specs))  # type: ignore[misc]
        except _OF_ALL:
            raise
        except VgpumgrError:
            continue  # what refused them first says more than what keeps them from the rest
    return tuple(more)


def _alike(tried: RefusedVm) -> tuple[str, list[str], list[str]]:
    return tried.task.verb, sorted(tried.gpus), sorted(tried.hosts)


@dataclass(frozen=True, slots=True)
class _AlternateRequests:
    """The requests of refused VMs, the ledger read for them, and their desktops' rows."""

    view: LedgerView
    specs: Sequence[VmSpec]
    desktops: Sequence[DesktopRecord]


def _reserved(
    context: EngineContext, operation: OperationRecord, tried: Sequence[RefusedVm], specs: Specs
) -> tuple[TaskRecord, ...]:
    first = _placed(context, _requests(context, tried, specs), tried)
    if not first:
        return ()
    context.refresh({each.host for each in first})
    requests = _requests(context, tried, specs)
    placed = _placed(context, requests, tried)
    if missing := absent(placed, requests.view, context.hosts, context.lanes):
        requests = replace(requests, view=replace(requests.view, absent=missing))
        placed = _placed(context, requests, tried)
    if not placed:
        return ()
    records = {host.name: host for host in requests.view.hosts}
    check_images(placed, records, context.hosts, context.lanes)
    work = _unshelving if tried[0].task.verb == UNSHELVE else _creation
    start = replace(work(context, operation, requests, placed), continued=True)
    context.ledger.reserve(start)
    for each in placed:
        context.tell(f"{each.request.name}: trying {each.host}, {', '.join(describe(each))}")
    return start.tasks


def _requests(
    context: EngineContext, tried: Sequence[RefusedVm], specs: Specs
) -> _AlternateRequests:
    """The requests of VMs that have not been made, started or deleted since."""
    view = context.view()
    ids = {each.task.vm_id for each in tried}
    if tried[0].task.verb == UNSHELVE:
        shelved = [vm for vm in view.vms if vm.id in ids and vm.state is VmState.SHELVED]
        return _AlternateRequests(view, [unshelve_request(vm) for vm in shelved], ())
    there = {vm.name for vm in view.vms}
    gone = [vm for vm in context.ledger.vms_ever(ids) if vm.name not in there]
    pools = context.ledger.pools()
    desktops = [vm for vm in gone if any(each.spec.naming.covers(vm.name) for each in pools)]
    rows = context.ledger.desktops([vm.name for vm in desktops]) if desktops else ()
    own = {row.vm_id: row for row in rows if row.vm_id in ids}
    # A pool whose desktop is another VM by now, or none, has seen to it by itself.
    wanted = [vm for vm in gone if vm.id in own or vm not in desktops]
    known = {**{each.name: each.vm for each in view.queue}, **specs}
    whole = [vm for vm in (known.get(vm.name, vm.spec) for vm in wanted) if not _withheld(vm)]
    return _AlternateRequests(view, whole, list(own.values()))


def _withheld(spec: VmSpec) -> bool:
    return spec.cloud_init is not None and bool(spec.cloud_init.digest)


def _placed(
    context: EngineContext, requests: _AlternateRequests, tried: Sequence[RefusedVm]
) -> list[Placed]:
    theirs = {row.pool for row in requests.desktops}
    place = place_beside_bookings(context.place, context.ledger, context.clock.now(), but=theirs)
    left = ExcludedSupply(gpus=tried[0].gpus, hosts=tried[0].hosts)
    decided = within_limits(
        requests.view, decide_with_layouts(requests.view, requests.specs, place, left)
    )
    return [each for each in decided if isinstance(each, Placed)]


def _creation(
    context: EngineContext,
    operation: OperationRecord,
    requests: _AlternateRequests,
    placed: Sequence[Placed],
) -> Reservation:
    actions = tuple(
        Action(
            kind=ActionKind.CREATE,
            vm=each.request,
            host=each.host,
            placed=each,
            details=tuple(describe(each)),
        )
        for each in placed
    )
    opening = context.opening(operation)
    start = vm_reservations.apply_reservation(Plan(actions=actions), requests.view, opening)
    made = {vm.name: vm.id for vm in start.vms}
    rows = [replace(row, vm_id=made[row.name]) for row in requests.desktops if row.name in made]
    return replace(start, desktops=tuple(rows))


def _unshelving(
    context: EngineContext,
    operation: OperationRecord,
    requests: _AlternateRequests,
    placed: Sequence[Placed],
) -> Reservation:
    by_name = {each.request.name: each for each in placed}
    vms = {vm.id: by_name[vm.name] for vm in requests.view.vms if vm.name in by_name}
    moves = [
        QueueMoved(
            entry=each.id,
            before=QueueState.WAITING,
            state=QueueState.RUNNING,
            vm_id=each.vm_id,
        )
        for each in requests.view.queue
        if each.vm_id in vms and each.state is QueueState.WAITING
    ]
    opening = context.opening(operation)
    return unshelve_reservation(vms, requests.view, opening, kind=operation.kind, moves=moves)
