"""A host that does not answer, and what its fence block says of it: asked about, or evacuated."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.evacuation.planning import on_host
from vgpumgr.engine.reconcile.context import Turn, words
from vgpumgr.engine.reconcile.events import Event, EventKind, task_event
from vgpumgr.engine.use_cases import evacuate
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.fence import Proof
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import FINAL_TASKS
from vgpumgr.model.waits import WAITS
from vgpumgr.model.words import counted

# A host that somebody switches off and on again is not lost: so long its fence status says off,
# without a break, before it is evacuated unasked. In seconds.
OFF_FOR_S = 120.0


def look_after(turn: Turn, host: HostRecord) -> None:
    """Say that its VMs can be recreated, or do it: only where its fence status says off.

    Nothing is switched off here: a host that may be on is left to a person.
    """
    vms = list(on_host(turn.session.ledger.vms(), host.name))
    proof = turn.session.fencing.proof(host) if host.fence is not None and vms else None
    if proof is None:
        turn.memory.off_since = None
        return
    now = turn.session.clock.monotonic()
    if turn.memory.off_since is None:
        turn.memory.off_since = now
    if not turn.shared.evacuates:
        turn.wait_for(
            f"{host.name} is off ({proof.how}): its {counted(len(vms), 'VM')} can be recreated",
            f"vgpumgr host evacuate {host.name}   (or the setting evacuate: automatic)",
        )
    elif now - turn.memory.off_since >= OFF_FOR_S:
        _evacuate(turn, host, proof)


def _evacuate(turn: Turn, host: HostRecord, proof: Proof) -> None:
    turn.lane.expect(WAITS.work_s)
    session = replace(turn.session, lanes=turn.side_by_side)
    try:
        planned, outcome = evacuate.evacuate(session, host.name, proof=proof)
    except LedgerError:
        raise
    except VgpumgrError as error:
        turn.wait_for(f"{host.name} is not evacuated: {words(error)}", error.next)
        return
    for each in outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    moved = counted(len(outcome.done), "VM")
    text = f"{host.name} is off and was evacuated: {moved} recreated, {proof.how}"
    turn.emit(Event(kind=EventKind.HOST_EVACUATED, host=host.name, text=text))
    for stays in planned.staying:
        turn.wait_for(f"{stays.vm.name} stays on {host.name}: {stays.why}", stays.next)
