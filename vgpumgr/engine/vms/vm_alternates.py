"""Alternates: other places, within the same operation, for VMs that a GPU or host refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from vgpumgr.engine.desktops.booked_capacity import placing_beside
from vgpumgr.engine.inventory.host_supply import Left
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.refusals import Tried, to_try_elsewhere
from vgpumgr.engine.operations.session import Session
from vgpumgr.engine.planning.disk_images import absent, check_images
from vgpumgr.engine.planning.quota_check import within_quotas
from vgpumgr.engine.planning.vm_plan import decide, describe
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.shelf_reservations import unshelving, wish
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.errors import Interrupted, LedgerError, VgpumgrError
from vgpumgr.model.operation import UNSHELVE, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueMoved, QueueState
from vgpumgr.model.vm import VmSpec, VmState

_OF_ALL = (LedgerError, Interrupted)


Specs = Mapping[str, VmSpec]


def reserve_alternates(session: Session, operation_id: str, specs: Specs) -> tuple[TaskRecord, ...]:
    """New tasks of an open operation, reserved: one for each VM that was refused and fits where it
    was not tried yet. Who fits nowhere has none; nobody else's refusal is changed by that.

    ``specs`` are those that whoever runs it knows, by name. The ledger keeps no cloud-init text of
    a VM that was undone: one that has such, and that neither they nor the queue know, is left
    to the same command again.
    """
    operation = session.ledger.operation(operation_id)
    if operation.ended_at is not None:
        return ()
    tried = to_try_elsewhere(
        session.ledger.tasks(operation.id), session.ledger.refusals(operation.id)
    )
    more: list[TaskRecord] = []
    for _, group in groupby(sorted(tried, key=_alike), _alike):
        alike = list(group)
        try:
            more += until_current(lambda alike=alike: _reserved(session, operation, alike, specs))  # type: ignore[misc]
        except _OF_ALL:
            raise
        except VgpumgrError:
            continue  # what refused them first says more than what keeps them from the rest
    return tuple(more)


def _alike(tried: Tried) -> tuple[str, list[str], list[str]]:
    return tried.task.verb, sorted(tried.gpus), sorted(tried.hosts)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What they ask for by a reading of the ledger, and the rows of those that are desktops."""

    view: LedgerView
    specs: Sequence[VmSpec]
    desktops: Sequence[DesktopRecord]


def _reserved(
    session: Session, operation: OperationRecord, tried: Sequence[Tried], specs: Specs
) -> tuple[TaskRecord, ...]:
    first = _placed(session, _wishes(session, tried, specs), tried)
    if not first:
        return ()
    session.refresh({each.host for each in first})
    wishes = _wishes(session, tried, specs)
    placed = _placed(session, wishes, tried)
    if missing := absent(placed, wishes.view, session.hosts, session.lanes):
        wishes = replace(wishes, view=replace(wishes.view, absent=missing))
        placed = _placed(session, wishes, tried)
    if not placed:
        return ()
    records = {host.name: host for host in wishes.view.hosts}
    check_images(placed, records, session.hosts, session.lanes)
    work = _unshelving if tried[0].task.verb == UNSHELVE else _creation
    start = replace(work(session, operation, wishes, placed), continued=True)
    session.ledger.reserve(start)
    for each in placed:
        session.tell(f"{each.request.name}: trying {each.host}, {', '.join(describe(each))}")
    return start.tasks


def _wishes(session: Session, tried: Sequence[Tried], specs: Specs) -> _Wishes:
    """Of those that nobody has made, started or deleted since."""
    view = session.view()
    ids = {each.task.vm_id for each in tried}
    if tried[0].task.verb == UNSHELVE:
        shelved = [vm for vm in view.vms if vm.id in ids and vm.state is VmState.SHELVED]
        return _Wishes(view, [wish(vm) for vm in shelved], ())
    there = {vm.name for vm in view.vms}
    gone = [vm for vm in session.ledger.vms_ever(ids) if vm.name not in there]
    pools = session.ledger.pools()
    desktops = [vm for vm in gone if any(each.spec.naming.covers(vm.name) for each in pools)]
    rows = session.ledger.desktops([vm.name for vm in desktops]) if desktops else ()
    own = {row.vm_id: row for row in rows if row.vm_id in ids}
    # A pool whose desktop is another VM by now, or none, has seen to it by itself.
    wanted = [vm for vm in gone if vm.id in own or vm not in desktops]
    known = {**{each.name: each.vm for each in view.queue}, **specs}
    whole = [vm for vm in (known.get(vm.name, vm.spec) for vm in wanted) if not _withheld(vm)]
    return _Wishes(view, whole, list(own.values()))


def _withheld(spec: VmSpec) -> bool:
    return spec.cloud_init is not None and bool(spec.cloud_init.digest)


def _placed(session: Session, wishes: _Wishes, tried: Sequence[Tried]) -> list[Placed]:
    theirs = {row.pool for row in wishes.desktops}
    place = placing_beside(session.place, session.ledger, session.clock.now(), but=theirs)
    left = Left(gpus=tried[0].gpus, hosts=tried[0].hosts)
    decided = within_quotas(wishes.view, decide(wishes.view, wishes.specs, place, left))
    return [each for each in decided if isinstance(each, Placed)]


def _creation(
    session: Session, operation: OperationRecord, wishes: _Wishes, placed: Sequence[Placed]
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
    opening = session.opening(operation)
    start = vm_reservations.application(Plan(actions=actions), wishes.view, opening)
    made = {vm.name: vm.id for vm in start.vms}
    rows = [replace(row, vm_id=made[row.name]) for row in wishes.desktops if row.name in made]
    return replace(start, desktops=tuple(rows))


def _unshelving(
    session: Session, operation: OperationRecord, wishes: _Wishes, placed: Sequence[Placed]
) -> Reservation:
    by_name = {each.request.name: each for each in placed}
    vms = {vm.id: by_name[vm.name] for vm in wishes.view.vms if vm.name in by_name}
    moves = [
        QueueMoved(
            entry=each.id,
            before=QueueState.WAITING,
            state=QueueState.RUNNING,
            vm_id=each.vm_id,
        )
        for each in wishes.view.queue
        if each.vm_id in vms and each.state is QueueState.WAITING
    ]
    opening = session.opening(operation)
    return unshelving(vms, wishes.view, opening, kind=operation.kind, moves=moves)
