"""The endpoint of `gpu cordon`: a person holds VMs off a GPU, until the quarantine is lifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.gpu_resets import gpu_id
from vgpumgr.endpoints.gpus import OneGpu
from vgpumgr.model.errors import Conflict

LONGEST_REASON = 200
Reason = Annotated[str, ParameterLimits(max_length=LONGEST_REASON)]
_SAID = "cordoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonGpu(OneGpu):
    """``reason`` is shown wherever the GPU takes no VM."""

    reason: Reason = ""


class CordonedGpu(TypedDict):
    """A GPU on which no VM is placed any more; ``vms`` hold parts of it, and go on."""

    name: str
    host: str
    device: str
    model: str
    state_why: str
    vms: list[str]


def cordon_gpu(context: CallContext, asked: CordonGpu) -> Result[CordonedGpu]:
    """Place no VM on a GPU any more; Conflict while it is being reset."""
    from vgpumgr.engine.hosts.gpu_drain import holders
    from vgpumgr.engine.layouts.gpu_reset import is_of_reset
    from vgpumgr.model.formats import spoken

    id_, ledger = gpu_id(context, asked), context.app.writable_ledger
    why = f"{_SAID}: {spoken(asked.reason)}" if asked.reason else _SAID
    gpu = next((each for each in ledger.gpus() if each.id == id_), None)
    if gpu is not None and is_of_reset(gpu):
        raise Conflict(
            f"{id_} takes no VM already: {gpu.state_why}",
            next=f"vgpumgr gpu show {id_}; vgpumgr gpu reset {id_} tries again",
        )
    ledger.quarantine(id_, why)
    gpu = next(each for each in ledger.gpus() if each.id == id_)
    answer: CordonedGpu = {
        "name": gpu.id,
        "host": gpu.host,
        "device": gpu.facts.device,
        "model": gpu.facts.model,
        "state_why": gpu.state_why,
        "vms": [vm.name for vm in holders(context.app.engine, gpu)],
    }
    return Result(answer=answer)


CORDON_GPU = Endpoint(
    name="gpu.cordon",
    method=HttpMethod.POST,
    path="/gpus:cordon",
    permission=Permission.HEAL_APPLY,
    summary="Place no VM on a GPU any more; those on it go on.",
    asks=CordonGpu,
    answers=CordonedGpu,
    kind="CordonedGPU",
    work=cordon_gpu,
)

ENDPOINTS = (CORDON_GPU,)
