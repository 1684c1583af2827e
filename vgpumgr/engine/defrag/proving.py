"""Whether a move would be refused once its hosts are looked at."""

from __future__ import annotations

from vgpumgr.engine import migration
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.defrag import Move
from vgpumgr.model.errors import VgpumgrError


def refusal(session: Session, view: LedgerView, move: Move) -> str:
    """The first check that the VM's migration there fails; "" where it passes all.

    Room is not asked for: others may have to leave first. A move within its host needs no other.
    """
    if move.within:
        return ""
    vm = next(each for each in view.vms if each.name == move.vm)
    to = next(each for each in view.hosts if each.name == move.target.host)
    try:
        looks = migration.look(vm, session.host(vm.host), session.host(to.name), to)
    except VgpumgrError as error:
        return f"{move.vm} to {to.name}: {error.message}"
    plan = migration.make_plan(
        view,
        vm,
        to,
        looks,
        session.policy,
        cold=move.way.stops,
        timeout_s=None,
    )
    checks = (each for each in plan.checks if each.name != "room" and not each.holds)
    failed = next(checks, None)
    return f"{move.vm} to {to.name}: {failed.text}" if failed else ""
