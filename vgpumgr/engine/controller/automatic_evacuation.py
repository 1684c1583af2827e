"""The evacuation of a host that does not answer and is proven off: told, or made unasked."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import HostCycle, error_line
from vgpumgr.engine.hosts import host_evacuation
from vgpumgr.engine.hosts.evacuation_plan import on_host
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostRecord, Proof
from vgpumgr.model.operation import FINAL_TASKS
from vgpumgr.model.ports import WAIT_LIMITS

# A host that is switched off and on again is not lost: so long its fence status says off,
# without a break, before it is evacuated unasked. In seconds.
OFF_FOR_S = 60.0


def recreate_lost_vms(turn: HostCycle, host: HostRecord) -> None:
    """Say that its VMs can be recreated, or do it: only where its fence status says off.

    Nothing is switched off here: a host that may be on is left to a person.
    """
    vms = list(on_host(turn.context.ledger.vms(), host.name))
    proof = turn.context.fencing.proof(host) if host.fence is not None and vms else None
    if proof is None:
        turn.memory.off_since = None
        return
    now = turn.context.clock.monotonic()
    if turn.memory.off_since is None:
        turn.memory.off_since = now
    if not turn.shared.evacuates:
        turn.wait_for(
            f"{host.name} is off ({proof.how}): its {counted(len(vms), 'VM')} can be recreated",
            f"vgpumgr host evacuate {host.name}   (or the setting evacuate: automatic)",
        )
    elif now - turn.memory.off_since >= OFF_FOR_S:
        _evacuate(turn, host, proof)


def _evacuate(turn: HostCycle, host: HostRecord, proof: Proof) -> None:
    turn.lane.expect(WAIT_LIMITS.work_s)
    context = replace(turn.context, lanes=turn.side_by_side)
    try:
        planned, outcome = host_evacuation.evacuate(context, host.name, proof=proof)
    except LedgerError:
        raise
    except VgpumgrError as error:
        turn.wait_for(f"{host.name} is not evacuated: {error_line(error)}", error.next)
        return
    for each in outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    moved = counted(len(outcome.done), "VM")
    text = f"{host.name} is off and was evacuated: {moved} recreated, {proof.how}"
    turn.emit(ControllerEvent(kind=EventKind.HOST_EVACUATED, host=host.name, text=text))
    for stays in planned.staying:
        turn.wait_for(f"{stays.vm.name} stays on {host.name}: {stays.why}", stays.next)
