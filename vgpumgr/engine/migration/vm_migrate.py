"""`vm migrate`: a VM moved to another host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr.engine.desktops.user_sessions import UserAtWork, at_work
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration import move_plan, move_plan_maker, move_reads, move_reservation
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.migration.users_at_work import not_ready_meanwhile
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import refuse_shelved, until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.errors import UsersAtWork
from vgpumgr.model.operation import MIGRATE, Reservation
from vgpumgr.model.placement import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveManner:
    """How a VM may move: ``cold`` is stopped for it, ``with_users`` even where that cuts a user
    off. ``seat`` is the required place on the target, None: any.
    """

    cold: bool = False
    timeout_s: float | None = None
    with_users: bool = False
    seat: Placed | None = None


def plan(
    context: EngineContext, name: str, to: str, how: MoveManner
) -> tuple[move_plan.MovePlan, LedgerView]:
    """Probe both hosts, then say how it would move, with all that keeps it from it."""
    vm = context.ledger.vm(name)
    operation_lifecycle.refuse_unfinished(context.ledger, [vm])
    refuse_shelved([vm])
    move_plan.refuse_nowhere(vm, context.ledger.host(to))
    for host, error in context.refresh({vm.host, to}).failed.items():
        error.next = error.next or f"vgpumgr host probe {host}"
        raise error
    view, target = context.view(), context.ledger.host(to)
    looks = move_reads.look(vm, context.host(vm.host), context.host(to), target)
    planned = move_plan_maker.make_plan(
        view,
        vm,
        target,
        looks,
        context.policy,
        cold=how.cold,
        timeout_s=how.timeout_s,
        seat=how.seat,
    )
    user = at_work(context.ledger, view).get(vm.id)
    if user is not None:
        check = _user_check(user, planned, with_users=how.with_users)
        planned = replace(planned, checks=(check, *planned.checks))
    return planned, view


def _user_check(
    user: UserAtWork, planned: move_plan.MovePlan, *, with_users: bool
) -> move_plan.MoveCheck:
    """A live move takes a user along; a stop cuts one off."""
    if planned.live or not planned.runs:
        return move_plan.MoveCheck(name="users", text=user.words)
    again = f"vgpumgr vm migrate {user.vm} --to {planned.target.name} --cold --with-users"
    return move_plan.MoveCheck(
        name="users",
        text=f"{user.words}, and {'is' if with_users else 'would be'} cut off",
        refused=None if with_users else UsersAtWork,
        next=again,
    )


def migrate(context: EngineContext, name: str, to: str, how: MoveManner) -> Outcome:
    """Move it, running if it can; what keeps it from it is raised.

    A move to the same host that was cut goes on.
    """
    before = _unfinished(context, name, to)
    if context.ledger.vm(name).host == to and before.vms:
        return before

    def attempt() -> Outcome:
        planned, view = plan(context, name, to, how)
        move_plan.refuse(planned)
        return operation_lifecycle.begin(context, move_reservation_of(context, planned, view))

    return until_current(attempt)


def move_reservation_of(
    context: EngineContext, planned: move_plan.MovePlan, view: LedgerView
) -> Reservation:
    """The transaction of a move; a free desktop is assigned to no user while stopped for it."""
    start = move_reservation.reservation(planned, view, context.opening())
    if planned.live or not planned.runs:
        return start
    tell_now(context, [planned.vm.name])
    return not_ready_meanwhile(context, start, planned.vm)


def _unfinished(context: EngineContext, name: str, to: str) -> Outcome:
    vm = context.ledger.vm(name)
    if vm.moving_to is not None and vm.moving_to.host != to:
        return Outcome()  # that one is refused with the way to end it
    outcome = operation_lifecycle.finish_leftovers(context, {name: vm.spec}, {MIGRATE})
    if name in outcome.waiting:
        outcome.raise_for_failure()
    return outcome
