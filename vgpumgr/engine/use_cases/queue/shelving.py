"""VMs of the queue put on the shelf, with what that means for their entries."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.reserving.shelving import Stop, shelving
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.queued import QueueMoved
from vgpumgr.model.vm import VmRecord

# A spot VM is asked to power off, and has this long for it, in seconds.
SPOT_GRACE_S = 60.0


def shelve(
    session: Session, view: LedgerView, vms: Sequence[VmRecord], moves: Sequence[QueueMoved]
) -> Outcome:
    """Stop them, give back what they hold, and see that it is."""
    stop = Stop(timeout_s=SPOT_GRACE_S, at_last=True)
    start = shelving(vms, view, session.opening(), stop, kind="queue", moves=moves)
    outcome = operations.begin(session, start)
    session.refresh({vm.host for vm in vms})  # the last look still shows what was given back
    return outcome
