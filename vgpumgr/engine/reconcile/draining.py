"""Hosts that are emptied: VM after VM is moved away from one that drains; what evacuated VMs left
on one that is back is taken away.
"""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.reconcile.context import Turn
from vgpumgr.engine.reconcile.events import Event, EventKind, task_event
from vgpumgr.engine.use_cases import drain, evacuate
from vgpumgr.model.journal import FINAL_TASKS


def drain_away(turn: Turn) -> bool:
    """Move what can be moved now; was anything?"""
    session = replace(turn.session, lanes=turn.side_by_side)
    worked = False
    while not session.stop.is_set():
        done = drain.step(session, turn.host)
        for each in done.outcome.vms:
            turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        worked = worked or bool(done.outcome.vms)
        if not done.outcome.done:
            _tell(turn, done)
            break
    return worked


def tidy_evacuated(turn: Turn) -> bool:
    """Take away what evacuated VMs left, if the host answers; was there any?"""
    done = evacuate.step(turn.session, turn.host)
    for each in done.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    return bool(done.vms)


def _tell(turn: Turn, done: drain.Drained) -> None:
    for choice in done.staying:
        turn.wait_for(f"{choice.vm.name} stays on {turn.host}: {choice.why}", choice.next)
    empty = not done.staying and not done.outcome.vms
    if empty and not turn.memory.drained:
        text = f"no VM is left on {turn.host}"
        turn.emit(Event(kind=EventKind.HOST_DRAINED, host=turn.host, text=text))
    turn.memory.drained = empty
