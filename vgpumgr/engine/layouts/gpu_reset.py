"""`gpu reset`: a GPU that nothing uses, reset by its driver and partitioned as it was."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import layout
from vgpumgr.engine.inventory.gpu_supply import gpu_supply
from vgpumgr.engine.inventory.host_supply import host_contents, unread
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_goals
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.layout_steps import ChangePart
from vgpumgr.model.errors import Conflict, InUse, NotFound, VgpumgrError
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.health import ActionClass
from vgpumgr.model.layout import PartChange
from vgpumgr.model.operation import LAYOUT, OperationState, Reservation

KIND = "gpu reset"
# Why a GPU is quarantined meanwhile, and afterwards where it went wrong.
RESETTING, RESET_FAILED = "its reset is under way", "its reset failed"
_OURS = (RESETTING, RESET_FAILED)
# Faults of which NVIDIA says that a reset of the GPU does not end them.
_BEYOND = {
    ActionClass.RESTART_HOST: "its host has to be restarted for what it asks",
    ActionClass.LOST: "it does not answer: only a restart of its host may bring it back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """The changes that reset a GPU, in their order."""

    gpu: GpuRecord
    changes: tuple[PartChange, ...]


def plan(context: EngineContext, gpu_id: str) -> ResetPlan:
    """Probe its host, then say how the GPU would be reset; nothing is changed. InUse while anything
    uses it, Conflict where a reset is not possible or would not help.
    """
    return _plan(_looked(context, gpu_id), gpu_id)


def reset(context: EngineContext, gpu_id: str) -> Outcome:
    """Reset it. From before the first change until the end nothing is placed on it; what its Xids
    reported is over once the GPU was read back.
    """
    before = plan(context, gpu_id).gpu
    own = before.state is GpuState.HEALTHY or is_of_reset(before)
    if own:
        context.ledger.quarantine(gpu_id, RESETTING)
    try:
        outcome = until_current(lambda: _begin(context, gpu_id))
    except Conflict:
        if own:
            context.ledger.end_quarantine(gpu_id)
        raise
    if outcome.state is OperationState.DONE:
        context.ledger.gpu_was_reset(gpu_id)
        if own:
            context.ledger.end_quarantine(gpu_id)
        context.refresh([before.host])
    elif own and outcome.state is OperationState.FAILED:
        why = next((_line(each.error) for each in outcome.vms if each.error), "")
        context.ledger.quarantine(gpu_id, f"{RESET_FAILED}: {why}")
    return outcome


def is_of_reset(gpu: GpuRecord) -> bool:
    """Is it quarantined because of a reset alone, which another reset ends?"""
    return gpu.state is GpuState.QUARANTINED and gpu.state_why.startswith(_OURS)


def _line(error: VgpumgrError) -> str:
    return f"{error.message}: {error.why}" if error.why else error.message


def _begin(context: EngineContext, gpu_id: str) -> Outcome:
    """By what the ledger says now: a VM that was placed meanwhile is seen, and the generation
    referees between us and one that is being placed.
    """
    view = context.view()
    planned = _plan(view, gpu_id)
    operation_lifecycle.close_layouts(context.ledger, {gpu_id}, context.clock.now())
    return operation_lifecycle.begin(context, _reservation(planned, context.opening()))


def _looked(context: EngineContext, gpu_id: str) -> LedgerView:
    host = _found(context.view(), gpu_id).host
    for error in context.refresh([host]).failed.values():
        raise error
    return context.view()


def _found(view: LedgerView, gpu_id: str) -> GpuRecord:
    for gpu in view.gpus:
        if gpu.id == gpu_id:
            return gpu
    raise NotFound(f"there is no GPU {gpu_id}", next="vgpumgr gpu list")


def _plan(view: LedgerView, gpu_id: str) -> ResetPlan:
    gpu = _found(view, gpu_id)
    _refuse(view, gpu)
    known = next((each for each in view.layouts if each.gpu == gpu_id), None)
    goal = layout.export(gpu.facts)
    if known is not None:
        goal = layout_goals.whole_goal(view, gpu, known.goal)
    return ResetPlan(gpu=gpu, changes=layout.reset_plan(gpu.facts, goal))


def _refuse(view: LedgerView, gpu: GpuRecord) -> None:
    """Conflict, or InUse that names what uses it."""
    name = f"{gpu.facts.model} {gpu.facts.device} on {gpu.host}"
    show = f"vgpumgr gpu show {gpu.id}"
    host = next(each for each in view.hosts if each.name == gpu.host)
    closed = "in maintenance" if host.maintenance else unread(host)
    if closed or gpu.state is GpuState.MISSING:
        raise Conflict(f"{name} cannot be reset", why=closed or "it is missing", next=show)
    beyond = _BEYOND.get(gpu.health.asks)
    if beyond:
        again = f"vgpumgr host drain {gpu.host}, restart it, then {show}"
        raise Conflict(
            f"a reset does not help {name}", why=f"{beyond}: {gpu.health.why}", next=again
        )
    contents = host_contents(view)[gpu.host]
    users = gpu_supply(gpu, contents).usages
    if users:
        names = dict.fromkeys(each.vm or each.foreign or each.profile for each in users)
        first = next((each.vm for each in users if each.vm), "")
        away = f"vgpumgr vm migrate {first} --to HOST, or vgpumgr vm delete {first}"
        raise InUse(
            f"{name} is in use by {', '.join(names)}",
            why="a GPU is not reset under a guest",
            next=f"{away}, then vgpumgr gpu reset {gpu.id}" if first else show,
        )
    stranger = layout_goals.stranger(gpu, contents)
    if stranger:
        raise Conflict(f"{name} cannot be reset", why=f"fleet {stranger} partitions it", next=show)


def _reservation(planned: ResetPlan, opening: OperationOpening) -> Reservation:
    operation, gpu = opening.operation(KIND), planned.gpu
    name = f"{gpu.facts.model} {gpu.facts.device}"
    work = [
        ChangePart(device=gpu.facts.device, change=layout.to_plain(each))
        for each in planned.changes
    ]
    task = opening.task(operation, LAYOUT, work, vm_id=gpu.id, vm=name, host=gpu.host)
    generations = {gpu.id: gpu.generation}
    return Reservation(operation=operation, tasks=(task,), gpu_generations=generations)
