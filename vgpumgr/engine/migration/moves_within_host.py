"""A VM moved to other GPUs of its own host: cold, without a copy of its disks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.desktops.user_sessions import at_work
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.migration.users_at_work import not_ready_meanwhile, users_cut_off
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
    until_current,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.planning.new_seats import as_if_off
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.engine.planning.vm_plan import describe
from vgpumgr.engine.reservation.new_seat import NewSeat, seat_allocations, seat_steps
from vgpumgr.engine.reservation.shelf_reservations import unshelve_request
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import RESEAT, Reservation
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmRecord
from vgpumgr.placement.defrag.movable_fleet import reseat as same_place

EMPTIED = "it is being drained"


def fleet_beside(view: LedgerView, vm: VmRecord) -> Fleet:
    """The supply if the VM were off: its vCPUs and memory are free, its GPU parts are not."""
    return build_fleet(as_if_off(view, {vm.id}))


def closed(fleet: Fleet, gpus: Collection[str]) -> Fleet:
    """The supply without these GPUs (our ids), which are being emptied."""
    if not gpus:
        return fleet
    hosts = (
        replace(
            host,
            gpus=tuple(
                replace(gpu, blocked=gpu.blocked or EMPTIED) if gpu.id in gpus else gpu
                for gpu in host.gpus
            ),
        )
        for host in fleet.hosts
    )
    return Fleet(hosts=tuple(hosts))


def local_move_reservation(
    wanted: NewSeat, view: LedgerView, opening: OperationOpening
) -> Reservation:
    """The VM marked as moving, what it takes beside what it holds, and one task."""
    vm, sites = wanted.vm, VmSites(view)
    new = seat_allocations(wanted, sites, opening)
    work = tuple(seat_steps(wanted, new, sites))
    operation, taken = opening.operation("vm move"), {each.gpu for each in new}
    return Reservation(
        operation=operation,
        tasks=(opening.task(operation, RESEAT, work, vm_id=vm.id, vm=vm.name, host=vm.host),),
        changed_vms=(wanted.moving(sites.site(vm.host)),),
        allocations=new,
        gpu_generations={each.id: each.generation for each in view.gpus if each.id in taken},
        host_generations={
            each.name: each.generation for each in view.hosts if each.name == vm.host
        },
    )


def move_within_host(
    context: EngineContext,
    name: str,
    seat: Placed | None = None,
    *,
    leaves: Collection[str] = (),
    with_users: bool = False,
) -> Outcome:
    """Move a VM to ``seat`` on its host, or to placement's best there except on the GPUs (the
    fleet's ids) that it ``leaves``. A running VM is stopped for it and started again; UsersAtWork
    where that cuts a user off, unless ``with_users``.

    An interrupted move is resumed.
    """
    vm = context.ledger.vm(name)
    before = operation_lifecycle.finish_leftovers(context, {name: vm.spec}, {RESEAT})
    if before.vms:
        return before

    def attempt() -> Outcome:
        view, runs = _looked(context, name, with_users=with_users)
        vm = context.ledger.vm(name)
        placed = _seated(view, vm, seat) if seat else _best(context, view, vm, leaves)
        wanted = NewSeat(vm=vm, placed=placed, runs=runs)
        start = local_move_reservation(wanted, view, context.opening())
        if wanted.runs:
            start = not_ready_meanwhile(context, start, wanted.vm)
        return operation_lifecycle.begin(context, start)

    return until_current(attempt)


def _looked(context: EngineContext, name: str, *, with_users: bool) -> tuple[LedgerView, bool]:
    """The reading after a look, and whether it runs; refuses what keeps it from a new place."""
    vm = context.ledger.vm(name)
    operation_lifecycle.refuse_unfinished(context.ledger, [vm])
    refuse_shelved([vm])
    for error in context.refresh({vm.host}).failed.values():
        error.next = error.next or f"vgpumgr host probe {vm.host}"
        raise error
    view = context.view()
    refuse_resting([(vm.name, vm.host)], observed_domains(view).resting)
    state = state_to_move(context, vm)
    user = at_work(context.ledger, view).get(vm.id)
    runs = state is DomainState.RUNNING
    if runs and user is not None and not with_users:
        raise users_cut_off(
            [user], next="the same command with --with-users, or wait until they have logged off"
        )
    if runs and user is not None:
        tell_now(context, [vm.name])
    return view, runs


def state_to_move(context: EngineContext, vm: VmRecord) -> DomainState:
    """Of its domain; Conflict where a new seat would lose something."""
    if vm.definition:
        raise Conflict(
            f"{vm.name} cannot get other GPU parts",
            why="it was adopted: its definition names its devices",
            next=f"vgpumgr vm show {vm.name}",
        )
    host = context.host(vm.host)
    found = host.domains.look(vm.name)
    state = found.state if found else DomainState.SHUTOFF
    if state not in {DomainState.RUNNING, *OFF}:
        raise Conflict(f"{vm.name} is {state} on {vm.host}", next=f"vgpumgr vm stop {vm.name}")
    if found is not None and host.domains.kept_beside(vm.name).saved_state:
        raise Conflict(
            f"{vm.name} is saved to disk on {vm.host}",
            why="its memory was saved with the devices that it has",
            next=f"vgpumgr vm start {vm.name}",
        )
    for pool, volume in vm.volumes:
        if host.storage.look(pool, volume) is None:
            raise Conflict(
                f"volume {pool}/{volume} of {vm.name} is not on {vm.host}",
                why="without it the VM would not be what it was",
                next=f"vgpumgr drift {vm.host}",
            )
    return state


def _seated(view: LedgerView, vm: VmRecord, seat: Placed) -> Placed:
    """The decision for exactly that place, if it is free."""
    request = replace(unshelve_request(vm), gpus=seat.request.gpus)
    placed = same_place(fleet_beside(view, vm), replace(seat, request=request))
    if placed is None:
        where = "; ".join(describe(seat))
        raise Conflict(
            f"{vm.name} cannot be moved on {vm.host}",
            why=f"the place that was planned is not free any more ({where})",
            next="the same command again makes a new plan",
        )
    return placed


def _best(
    context: EngineContext, view: LedgerView, vm: VmRecord, leaves: Collection[str]
) -> Placed:
    place = place_beside_bookings(context.place, context.ledger, context.clock.now())
    [decision] = place(closed(fleet_beside(view, vm), leaves), [unshelve_request(vm)])
    if isinstance(decision, NotPlaced):
        raise no_placement([decision])
    return decision
