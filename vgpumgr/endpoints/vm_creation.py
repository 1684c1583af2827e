"""The endpoints that create one VM from its properties, or plan that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vgpumgr import API_VERSION
from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import checked
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.outcomes import failure_of, outcome_item
from vgpumgr.endpoints.own_documents import (
    own_new_vm,
    own_vms,
    require_new_vm_name,
    require_own_plan,
)
from vgpumgr.endpoints.plan_items import AppliedPlan, PlanItem, plan_item
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVm:
    """A VM: ``profiles`` are its GPU parts, ``memory`` and ``disk`` sizes like ``4GiB``; ``image``
    is what its disk is an overlay of, ``os`` the guest's operating system by its name in files.
    """

    name: str
    profiles: tuple[str, ...] = ()
    vcpus: int = 2
    memory: str = "4GiB"
    disk: str = ""
    image: str = ""
    network: str = ""
    firmware: Literal["uefi", "bios"] = "uefi"
    os: str = ""
    display: bool = False
    console: bool = False


def plan_vm(context: CallContext, asked: CreateVm) -> Result[PlanItem]:
    """Where it would go; what would help where it fits nowhere. Nothing is changed."""
    specs, engine = _new(context, asked), context.app.engine
    plan = engine.plan(specs)
    item = plan_item(plan)
    if plan.unplaced:
        changes = [change for each in engine.explain(specs) for change in each.changes]
        item["notes"] += [f"{asked.name} would fit {each.text}" for each in changes]
    return Result(answer=item)


def create_vm(context: CallContext, asked: CreateVm) -> Result[AppliedPlan]:
    """Create it; Conflict where there is one of the name."""
    specs = _new(context, asked)
    try:
        with context.changing() as engine:
            done, outcome = engine.apply(
                specs, show=lambda planned: require_own_plan(context, planned)
            )
    except NoPlacement as error:
        error.next = "vgpumgr capacity"
        raise
    answer: Any = {**plan_item(done), **outcome_item(outcome), "name": "plan"}
    return Result(answer=answer, error=failure_of(outcome))


def _new(context: CallContext, asked: CreateVm) -> tuple[VmSpec, ...]:
    from vgpumgr.spec import COMMAND_LINE

    app = context.app
    text = json.dumps(_document(asked), ensure_ascii=False).encode(errors="surrogatepass")
    specs = checked(app.ledger, text, COMMAND_LINE).vms
    app.require_hosts()
    require_new_vm_name(context, asked.name)
    return own_vms(context, [own_new_vm(context, each) for each in specs])


def _document(asked: CreateVm) -> dict[str, Any]:
    """The same document as a file would hold, which goes through the same checks."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "VM",
        "name": asked.name,
        "vcpus": asked.vcpus,
        "memory": asked.memory,
        "firmware": asked.firmware,
        "display": asked.display,
        "console": asked.console,
        "gpus": [{"profile": profile} for profile in asked.profiles],
    }
    size = {"size": asked.disk} if asked.disk else {}
    if asked.image:
        document["disks"] = [{"mode": "overlay", "image": asked.image, **size}]
    elif size:
        document["disks"] = [size]
    if asked.os:
        document["os"] = asked.os
    if asked.network:
        document["networks"] = [{"network": asked.network}]
    return document


CREATE_VM = Endpoint(
    name="vm.create",
    method=HttpMethod.POST,
    path="/vms",
    permission=Permission.VM_CREATE,
    summary="Create a VM.",
    asks=CreateVm,
    answers=AppliedPlan,
    kind="Apply",
    work=create_vm,
    runs=Runs.OPERATION,
    scoped=True,
)
PLAN_VM = Endpoint(
    name="vm.plan-new",
    method=HttpMethod.POST,
    path="/vms:plan-new",
    permission=Permission.VM_PLAN,
    summary="Where a new VM would go; nothing is changed.",
    asks=CreateVm,
    answers=PlanItem,
    kind="Plan",
    work=plan_vm,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (CREATE_VM, PLAN_VM)
