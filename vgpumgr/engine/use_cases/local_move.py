"""A VM moved to other GPUs of its own host: cold, without a copy of its disks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.booking import placing_beside
from vgpumgr.engine.planning.changes import refuse_resting
from vgpumgr.engine.planning.plan import describe, reached
from vgpumgr.engine.planning.refusal import no_placement
from vgpumgr.engine.pooling import at_work
from vgpumgr.engine.reserving.local_move import Reseat, closed, fleet_beside, reseating
from vgpumgr.engine.reserving.shelving import refuse_shelved, wish
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.steps import OFF
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.users_at_work import cut_off, not_ready_meanwhile
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict
from vgpumgr.model.journal import RESEAT
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.vm import VmRecord
from vgpumgr.placement.defrag import reseat as same_place


def reseat(
    session: Session,
    name: str,
    seat: Placed | None = None,
    *,
    leaves: Collection[str] = (),
    with_users: bool = False,
) -> Outcome:
    """Move it to ``seat`` on its host, or to placement's best there but for the GPUs (our ids) that
    it ``leaves``. One that runs is stopped for it and started again; UsersAtWork where that cuts
    somebody off, unless ``with_users``.

    A move that was cut goes on.
    """
    vm = session.ledger.vm(name)
    before = operations.finish_leftovers(session, {name: vm.spec}, {RESEAT})
    if before.vms:
        return before

    def attempt() -> Outcome:
        view, runs = _looked(session, name, with_users=with_users)
        vm = session.ledger.vm(name)
        placed = _seated(view, vm, seat) if seat else _best(session, view, vm, leaves)
        wanted = Reseat(vm=vm, placed=placed, runs=runs)
        start = reseating(wanted, view, session.opening())
        if wanted.runs:
            start = not_ready_meanwhile(session, start, wanted.vm)
        return operations.begin(session, start)

    return until_current(attempt)


def _looked(session: Session, name: str, *, with_users: bool) -> tuple[LedgerView, bool]:
    """The reading after a look, and whether it runs; refuses what keeps it from a new place."""
    vm = session.ledger.vm(name)
    leftovers.refuse_unfinished(session.ledger, [vm])
    refuse_shelved([vm])
    for error in session.refresh({vm.host}).failed.values():
        error.next = error.next or f"vgpumgr host probe {vm.host}"
        raise error
    view = session.view()
    refuse_resting([(vm.name, vm.host)], reached(view).resting)
    state = _state(session, vm)
    user = at_work(session.ledger, view).get(vm.id)
    runs = state is DomainState.RUNNING
    if runs and user is not None and not with_users:
        raise cut_off(
            [user], next="the same command with --with-users, or wait until they have logged off"
        )
    return view, runs


def _state(session: Session, vm: VmRecord) -> DomainState:
    """Of its domain; Conflict where the move would lose something."""
    if vm.definition:
        raise Conflict(
            f"{vm.name} cannot get other GPU parts",
            why="it was adopted: its definition names its devices",
            next=f"vgpumgr vm show {vm.name}",
        )
    host = session.host(vm.host)
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
    """That very place, if it is free."""
    request = replace(wish(vm), gpus=seat.request.gpus)
    placed = same_place(fleet_beside(view, vm), replace(seat, request=request))
    if placed is None:
        where = "; ".join(describe(seat))
        raise Conflict(
            f"{vm.name} cannot be moved on {vm.host}",
            why=f"the place that was planned is not free any more ({where})",
            next="the same command again makes a new plan",
        )
    return placed


def _best(session: Session, view: LedgerView, vm: VmRecord, leaves: Collection[str]) -> Placed:
    place = placing_beside(session.place, session.ledger, session.clock.now())
    [decision] = place(closed(fleet_beside(view, vm), leaves), [wish(vm)])
    if isinstance(decision, NotPlaced):
        raise no_placement([decision])
    return decision
