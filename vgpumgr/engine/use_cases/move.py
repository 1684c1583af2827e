"""A VM moved to another host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr.engine import migration
from vgpumgr.engine.pooling import AtWork, at_work
from vgpumgr.engine.reserving.shelving import refuse_shelved
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.users_at_work import not_ready_meanwhile
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import UsersAtWork
from vgpumgr.model.journal import MIGRATE, Reservation
from vgpumgr.model.placement import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a VM may move: ``cold`` is stopped for it, ``with_users`` even where that cuts somebody
    off. ``seat`` is the place that it must have there, where not any will do.
    """

    cold: bool = False
    timeout_s: float | None = None
    with_users: bool = False
    seat: Placed | None = None


def plan(
    session: Session, name: str, to: str, how: Manner
) -> tuple[migration.MovePlan, LedgerView]:
    """Probe both hosts, then say how it would move, with all that keeps it from it."""
    vm = session.ledger.vm(name)
    leftovers.refuse_unfinished(session.ledger, [vm])
    refuse_shelved([vm])
    migration.refuse_nowhere(vm, session.ledger.host(to))
    for host, error in session.refresh({vm.host, to}).failed.items():
        error.next = error.next or f"vgpumgr host probe {host}"
        raise error
    view, target = session.view(), session.ledger.host(to)
    looks = migration.look(vm, session.host(vm.host), session.host(to), target)
    planned = migration.make_plan(
        view,
        vm,
        target,
        looks,
        session.policy,
        cold=how.cold,
        timeout_s=how.timeout_s,
        seat=how.seat,
    )
    user = at_work(session.ledger, view).get(vm.id)
    if user is not None:
        check = _user_check(user, planned, with_users=how.with_users)
        planned = replace(planned, checks=(check, *planned.checks))
    return planned, view


def _user_check(user: AtWork, planned: migration.MovePlan, *, with_users: bool) -> migration.Check:
    """A live move takes a user along; a stop cuts one off."""
    if planned.live or not planned.runs:
        return migration.Check(name="users", text=user.words)
    again = f"vgpumgr vm migrate {user.vm} --to {planned.target.name} --cold --with-users"
    return migration.Check(
        name="users",
        text=f"{user.words}, and {'is' if with_users else 'would be'} cut off",
        refused=None if with_users else UsersAtWork,
        next=again,
    )


def migrate(session: Session, name: str, to: str, how: Manner) -> Outcome:
    """Move it, running if it can; what keeps it from it is raised.

    A move to the same host that was cut goes on.
    """
    before = _unfinished(session, name, to)
    if session.ledger.vm(name).host == to and before.vms:
        return before

    def attempt() -> Outcome:
        planned, view = plan(session, name, to, how)
        migration.refuse(planned)
        return operations.begin(session, opened(session, planned, view))

    return until_current(attempt)


def opened(session: Session, planned: migration.MovePlan, view: LedgerView) -> Reservation:
    """What the move writes first; a free desktop is given to nobody while it is stopped for it."""
    start = migration.reservation(planned, view, session.opening())
    if planned.live or not planned.runs:
        return start
    return not_ready_meanwhile(session, start, planned.vm)


def _unfinished(session: Session, name: str, to: str) -> Outcome:
    vm = session.ledger.vm(name)
    if vm.moving_to is not None and vm.moving_to.host != to:
        return Outcome()  # that one is refused with the way to end it
    outcome = operations.finish_leftovers(session, {name: vm.spec}, {MIGRATE})
    if name in outcome.waiting:
        outcome.raise_for_failure()
    return outcome
