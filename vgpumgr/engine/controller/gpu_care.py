"""Care for the GPUs of a host: each change of health is told once, and what the policy says is
done, or told as what would be done.
"""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import HostCycle, error_line
from vgpumgr.engine.hosts import gpu_drain
from vgpumgr.engine.hosts.due_care import DueCare, due_care, many_out
from vgpumgr.engine.layouts import gpu_reset
from vgpumgr.health.health_policy import HealthAction, HealthMode
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.health import HealthState
from vgpumgr.model.operation import FINAL_TASKS, OperationState


def care_for_gpus(turn: HostCycle) -> bool:
    """Tell, and do what is due now; was anything done?"""
    gpus = turn.context.ledger.gpus(turn.host)
    for gpu in gpus:
        _tell(turn, gpu)
    ill = [gpu for gpu in gpus if gpu.condition is not HealthState.HEALTHY]
    worked = False
    for gpu in ill:
        care = due_care(turn.context, turn.shared.health, gpu)
        if care.action is not None:
            worked = _take(turn, care, care.action) or worked
        else:
            turn.memory.intended.pop(gpu.id, None)
    return worked


def _tell(turn: HostCycle, gpu: GpuRecord) -> None:
    """A healthy GPU is told of where it was told of before."""
    now = (str(gpu.health.state), str(gpu.health.asks))
    before = turn.memory.conditions.get(gpu.id)
    if now == before or (before is None and gpu.health.state is HealthState.HEALTHY):
        return
    turn.memory.conditions[gpu.id] = now
    turn.memory.intended.pop(gpu.id, None)
    why = f": {gpu.health.why} (asks for: {gpu.health.asks})" if gpu.health.why else ""
    _emit(turn, gpu, f"{_named(gpu)} is {gpu.health.state}{why}")


def _emit(turn: HostCycle, gpu: GpuRecord, text: str) -> None:
    turn.emit(
        ControllerEvent(
            kind=EventKind.GPU_HEALTH,
            host=turn.host,
            gpu=gpu.id,
            state=str(gpu.health.state),
            text=text,
            next=f"vgpumgr gpu show {gpu.id}" if gpu.health.why else "",
        )
    )


def _take(turn: HostCycle, care: DueCare, action: HealthAction) -> bool:
    """Do it, unless this is a dry run, too many are out, or it was tried in vain just now."""
    gpu = care.gpu
    would = f"{_named(gpu)} would {care.words}"
    if turn.shared.health.mode is HealthMode.DRY_RUN:
        _intend(turn, gpu, f"{would}: health_mode is {HealthMode.DRY_RUN}")
        return False
    if out := many_out(turn.context.ledger.gpus()):
        _intend(turn, gpu, f"{would}, but {out}")
        return False
    what = f"{action}:{gpu.id}"
    if not turn.shared.patience.ready(what):
        turn.wait_for(f"{would}: it is tried again later")
        return False
    return _do(turn, gpu, action, what)


def _intend(turn: HostCycle, gpu: GpuRecord, text: str) -> None:
    """Told once for as long as it is so."""
    if turn.memory.intended.get(gpu.id) != text:
        turn.memory.intended[gpu.id] = text
        _emit(turn, gpu, text)


def _do(turn: HostCycle, gpu: GpuRecord, action: HealthAction, what: str) -> bool:
    try:
        match action:
            case HealthAction.CORDON:
                turn.context.ledger.quarantine(gpu.id, gpu.health.why)
                done = True
            case HealthAction.RESET:
                done = _reset(turn, gpu)
            case _:
                done = _drain(turn, gpu, cold=action is HealthAction.EVACUATE)
    except LedgerError:
        raise
    except VgpumgrError as error:
        turn.wait_for(f"{_named(gpu)}: {error_line(error)}", error.next)
        done = False
    if done:
        turn.shared.patience.done(what)
    else:
        turn.shared.patience.failed(what)
    return done


def _reset(turn: HostCycle, gpu: GpuRecord) -> bool:
    outcome = gpu_reset.reset(turn.context, gpu.id)
    for each in outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    done = outcome.state is OperationState.DONE
    if done:
        _emit(turn, gpu, f"{_named(gpu)} was reset")
    return done


def _drain(turn: HostCycle, gpu: GpuRecord, *, cold: bool) -> bool:
    context = replace(turn.context, lanes=turn.side_by_side)
    report = gpu_drain.step(context, gpu, cold=cold)
    for each in report.outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    for choice in report.staying:
        turn.wait_for(f"{choice.vm.name} stays on {_named(gpu)}: {choice.why}", choice.next)
    return bool(report.outcome.done)


def _named(gpu: GpuRecord) -> str:
    return f"{gpu.facts.model} {gpu.facts.device} on {gpu.host}"
