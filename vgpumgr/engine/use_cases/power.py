"""VMs started, stopped and rebooted."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.planning.changes import refuse_resting
from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.reserving import reservations
from vgpumgr.engine.reserving.returning import displaced, require_partitioned, require_whole
from vgpumgr.engine.reserving.shelving import refuse_shelved
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.local_move import reseat
from vgpumgr.engine.use_cases.shelve import finish, unshelve
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.vm import VmRecord, VmState


def start(session: Session, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices first, and what else their hosts lost; shelved ones take anew what
    they need.
    """
    before = finish(session, names)
    session.refresh({session.ledger.vm(name).host for name in names})
    view, vms = session.view(), [session.ledger.vm(name) for name in names]
    shelved = [vm for vm in vms if vm.state is VmState.SHELVED]
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    before = before.then(_place_anew(session, view, holding))
    view = session.view()
    require_whole(view, holding)
    require_partitioned(view, [vm.name for vm in holding])
    if shelved:
        leftovers.refuse_unfinished(session.ledger, vms)
        before = before.then(unshelve(session, shelved))
    rest = [vm.name for vm in holding if vm.name not in before.waiting]
    return before.then(power(session, rest, "start")) if rest else before


def _place_anew(session: Session, view: LedgerView, vms: Sequence[VmRecord]) -> Outcome:
    """VMs that are off and do not get back what they had get other GPUs of their host, where there
    is room; the others are refused, or tried where they are, as before.
    """
    outcome, running = Outcome(), reached(view).running
    off = [vm for vm in vms if (vm.host, vm.name) not in running]
    for name, why in displaced(view, off).items():
        try:
            moved = reseat(session, name)
        except (Conflict, NoPlacement):
            continue
        moved.raise_for_failure()
        outcome = outcome.then(moved)
        session.tell(f"{name}: {why}; it is placed again: {_where(session, name)}")
    return outcome


def _where(session: Session, name: str) -> str:
    view = session.view()
    known = {gpu.id: gpu.facts for gpu in view.gpus}
    mine = [each for each in view.allocations if each.vm == name]
    return ", ".join(
        f"{each.profile} on {known[each.gpu].model} {known[each.gpu].device} of {each.host}"
        for each in mine
    )


def power(
    session: Session,
    names: Sequence[str],
    verb: str,
    *,
    force: bool = False,
    timeout_s: float = 60.0,
) -> Outcome:
    """``start``, ``stop`` or ``reboot``; with ``force`` the guest is not asked."""
    vms = [session.ledger.vm(name) for name in names]
    leftovers.refuse_unfinished(session.ledger, vms)
    if verb != "stop":
        refuse_shelved(vms)
    view = session.view()
    if verb != "stop":
        refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
    start = reservations.power(
        vms, view, session.opening(), verb=verb, force=force, timeout_s=timeout_s
    )
    return operations.begin(session, start)
