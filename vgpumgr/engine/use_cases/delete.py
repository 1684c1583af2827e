"""VMs taken away, with what was made for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.planning.changes import MOST_NAMED
from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.reserving import reservations
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.model.errors import HostUnreachable, StillRunning
from vgpumgr.model.vm import VmRecord, VmState


def delete(session: Session, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
    """Delete VMs. A running one needs ``force``; an interrupted deletion goes on.

    A creation that never ended is undone: its VM was never there to be deleted.
    """
    wanted = {name: session.ledger.vm(name).spec for name in names}
    before = operations.finish_leftovers(session, wanted, {"delete"})
    if not force:
        _refuse_running(session, _alive(session, wanted))
    half_made = {vm.name for vm in _alive(session, wanted) if vm.state is VmState.RESERVED}
    operations.take_back(session, half_made)
    vms = _alive(session, wanted)
    leftovers.refuse_unfinished(session.ledger, vms)
    start = reservations.deletion(vms, session.view(), session.opening(), keep_disks=keep_disks)
    return before.then(operations.begin(session, start))


def _alive(session: Session, names: Collection[str]) -> list[VmRecord]:
    """The VMs of these names that are not on their way out."""
    found = [vm for vm in session.ledger.vms() if vm.name in names]
    return [vm for vm in found if vm.state is not VmState.DELETING]


def _refuse_running(session: Session, vms: Sequence[VmRecord]) -> None:
    """Conflict when a VM runs, or nobody can tell: deleting it needs ``--force``."""
    if not vms:
        return
    session.refresh({vm.host for vm in vms})
    seen = reached(session.view())
    for vm in vms:
        if vm.host not in seen.hosts:
            raise HostUnreachable(
                f"cannot tell whether {vm.name} runs",
                why=f"host {vm.host} did not answer",
                next=f"vgpumgr host probe {vm.host}, or delete with --force",
            )
    names = [vm.name for vm in vms if (vm.host, vm.name) in seen.running]
    if names:
        said = " ".join(names) if len(names) <= MOST_NAMED else "NAME …"
        stop = f"vgpumgr vm stop {said}"
        raise StillRunning(
            f"still running: {', '.join(names[:MOST_NAMED])}"
            f"{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''}",
            stop=stop,
            next=f"vgpumgr vm delete {said} --force   (powers them off), or first {stop}",
        )
