"""The endpoint that clones a VM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import failure_of, outcome_item
from vgpumgr.endpoints.own_documents import require_new_vm_name, require_own_plan
from vgpumgr.endpoints.plan_items import AppliedPlan, plan_item
from vgpumgr.endpoints.shapes import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneVm:
    """The VM that is cloned, which is off, and the new one's name. ``snapshot``: its disks are laid
    over that snapshot of the VM, which may run: no byte is copied, and the snapshot has to stay.
    """

    name: Name
    clone: Name
    snapshot: Annotated[str, ParameterLimits(max_length=63)] = ""


def clone_vm(context: CallContext, asked: CloneVm) -> Result[AppliedPlan]:
    """Create a VM like it with its disks' content; Conflict where there is one of the name."""
    source = context.reads.vm(asked.name)
    require_new_vm_name(context, asked.clone)
    with context.changing() as engine:
        spec = engine.clone_spec(source, asked.clone, asked.snapshot)
        done, outcome = engine.apply([spec], show=lambda plan: require_own_plan(context, plan))
    answer: Any = {**plan_item(done), **outcome_item(outcome), "name": "plan"}
    return Result(answer=answer, error=failure_of(outcome))


CLONE_VM = Endpoint(
    name="vm.clone",
    method=HttpMethod.POST,
    path="/vms/{name}:clone",
    permission=Permission.VM_CREATE,
    summary="Create a VM like another one, with copies of its disks or laid over a snapshot.",
    asks=CloneVm,
    answers=AppliedPlan,
    kind="Apply",
    work=clone_vm,
    runs=Runs.OPERATION,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (CLONE_VM,)
