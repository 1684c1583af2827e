"""VMs started, stopped and rebooted."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.planning.changes import refuse_resting
from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.reserving import reservations
from vgpumgr.engine.reserving.returning import require_partitioned, require_whole
from vgpumgr.engine.reserving.shelving import refuse_shelved
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.shelve import finish, unshelve
from vgpumgr.model.vm import VmState


def start(session: Session, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices first, and what else their hosts lost; shelved ones take anew what
    they need.
    """
    before = finish(session, names)
    session.refresh({session.ledger.vm(name).host for name in names})
    view, vms = session.view(), [session.ledger.vm(name) for name in names]
    shelved = [vm for vm in vms if vm.state is VmState.SHELVED]
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    require_whole(view, holding)
    require_partitioned(view, [vm.name for vm in holding])
    if shelved:
        leftovers.refuse_unfinished(session.ledger, vms)
        before = before.then(unshelve(session, shelved))
    rest = [vm.name for vm in holding if vm.name not in before.waiting]
    return before.then(power(session, rest, "start")) if rest else before


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
