"""A VM moved to another host."""

from __future__ import annotations

from vgpumgr.engine import migration
from vgpumgr.engine.reserving.shelving import refuse_shelved
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.journal import MIGRATE
from vgpumgr.model.placement import Placed


def plan(
    session: Session,
    name: str,
    to: str,
    *,
    cold: bool,
    timeout_s: float | None,
    seat: Placed | None = None,
) -> tuple[migration.MovePlan, LedgerView]:
    """Probe both hosts, then say how it would move, with all that keeps it from it.

    ``seat`` is the place that it must have there, where not any will do.
    """
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
        view, vm, target, looks, session.policy, cold=cold, timeout_s=timeout_s, seat=seat
    )
    return planned, view


def migrate(
    session: Session,
    name: str,
    to: str,
    *,
    cold: bool,
    timeout_s: float | None,
    seat: Placed | None = None,
) -> Outcome:
    """Move it, running if it can; what keeps it from it is raised.

    A move to the same host that was cut goes on.
    """
    before = _unfinished(session, name, to)
    if session.ledger.vm(name).host == to and before.vms:
        return before

    def attempt() -> Outcome:
        planned, view = plan(session, name, to, cold=cold, timeout_s=timeout_s, seat=seat)
        migration.refuse(planned)
        start = migration.reservation(planned, view, session.opening())
        return operations.begin(session, start)

    return until_current(attempt)


def _unfinished(session: Session, name: str, to: str) -> Outcome:
    vm = session.ledger.vm(name)
    if vm.moving_to is not None and vm.moving_to.host != to:
        return Outcome()  # that one is refused with the way to end it
    outcome = operations.finish_leftovers(session, {name: vm.spec}, {MIGRATE})
    if name in outcome.waiting:
        outcome.raise_for_failure()
    return outcome
