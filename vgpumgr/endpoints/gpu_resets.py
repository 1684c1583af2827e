"""The endpoints of `gpu reset`: what it would do, and the reset."""

from __future__ import annotations

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.gpus import OneGpu, gpu_name
from vgpumgr.endpoints.layout_items import ChangeItem, change_item
from vgpumgr.endpoints.outcomes import OutcomeItem, outcome_result


class ResetPlanItem(TypedDict):
    """The changes of a GPU that reset it and partition it as it was; ``why`` is what speaks against
    the GPU now.
    """

    name: str
    host: str
    device: str
    model: str
    condition: str
    why: str
    changes: list[ChangeItem]


def plan_reset(context: CallContext, asked: OneGpu) -> Result[ResetPlanItem]:
    """Probe its host, and list the changes; InUse, Conflict where it cannot be reset."""
    found = context.app.engine.gpu_reset_plan(gpu_id(context, asked))
    gpu = found.gpu
    answer: ResetPlanItem = {
        "name": gpu.id,
        "host": gpu.host,
        "device": gpu.facts.device,
        "model": gpu.facts.model,
        "condition": str(gpu.condition),
        "why": gpu.health.why,
        "changes": [change_item(each) for each in found.changes],
    }
    return Result(answer=answer)


def reset_gpu(context: CallContext, asked: OneGpu) -> Result[OutcomeItem]:
    """Reset a GPU that nothing uses; InUse, Conflict where it cannot be."""
    gpu = gpu_id(context, asked)
    with context.changing() as engine:
        outcome = engine.reset_gpu(gpu)
    return outcome_result(outcome)


def gpu_id(context: CallContext, asked: OneGpu) -> str:
    """The id of the one GPU that is meant; what was asked for where none or several are."""
    context.app.require_hosts()
    name = gpu_name(asked)
    found = [each.id for each in context.app.ledger.gpus() if each.is_called(name)]
    return found[0] if len(found) == 1 else name


PLAN_RESET = Endpoint(
    name="gpu.reset-plan",
    method=HttpMethod.GET,
    path="/gpus/{name}/reset-plan",
    permission=Permission.LAYOUT_READ,
    summary="What a reset of a GPU would change.",
    asks=OneGpu,
    answers=ResetPlanItem,
    kind="GPUResetPlan",
    work=plan_reset,
    runs=Runs.WORKER,
)
RESET_GPU = Endpoint(
    name="gpu.reset",
    method=HttpMethod.POST,
    path="/gpus:reset",
    permission=Permission.HEAL_APPLY,
    summary="Reset a GPU that nothing uses, and partition it as it was.",
    asks=OneGpu,
    answers=OutcomeItem,
    kind="GPUReset",
    work=reset_gpu,
    runs=Runs.OPERATION,
)

ENDPOINTS = (PLAN_RESET, RESET_GPU)
