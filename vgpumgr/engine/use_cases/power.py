"""VMs started, stopped and rebooted."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine import leftovers, operations, reservations
from vgpumgr.engine.changes import refuse_resting
from vgpumgr.engine.outcome import Outcome
from vgpumgr.engine.planning import reached
from vgpumgr.engine.returning import require_partitioned, require_whole
from vgpumgr.engine.session import Session


def start(session: Session, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices first, and what else their hosts lost."""
    session.refresh({session.ledger.vm(name).host for name in names})
    view = session.view()
    require_whole(view, [session.ledger.vm(name) for name in names])
    require_partitioned(view, names)
    return power(session, names, "start")


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
    view = session.view()
    if verb != "stop":
        refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
    start = reservations.power(
        vms, view, session.opening(), verb=verb, force=force, timeout_s=timeout_s
    )
    return operations.begin(session, start)
