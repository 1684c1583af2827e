"""The endpoints of healing: remedies for drift, planned and carried out, and quarantine lifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.drifts import (
    UnreadItem,
    drift_name,
    known_hosts,
    unread_items,
    unread_parts_error,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.gpus import OneGpu, gpu_name
from vgpumgr.endpoints.hosts import HostNames
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import PartlyDone, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.operation import TaskState

if TYPE_CHECKING:
    from vgpumgr.engine.heal.remedy import DriftSelection, HealPlan, HealReport, Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class HealRequest:
    """Differences of these hosts, VMs and kinds; what is not named is not limited."""

    hosts: HostNames = ()
    vms: Annotated[tuple[Name, ...], ParameterLimits(max_length=10_000)] = ()
    kinds: Annotated[tuple[DriftKind, ...], ParameterLimits(max_length=100)] = ()


class RemedyItem(TypedDict):
    """A difference and what ends it: ``by`` whom, in which ``way``."""

    name: str
    host: str
    gpu: str
    vm: str
    subject: str
    kind: str
    text: str
    by: str
    way: str
    remedy: str
    next: str


class HealPlanItem(TypedDict):
    """Remedies, and how many VMs on how many hosts were compared; ``skipped`` are VMs that an
    operation works on.
    """

    items: list[RemedyItem]
    not_read: list[UnreadItem]
    hosts: int
    vms: int
    skipped: list[str]


class HealEnd(OutcomeItem):
    """What was done, what went wrong without a task of its own, and the remedies that are ``left``
    after another look (``after``).
    """

    left: list[RemedyItem]
    errors: list[str]
    after: HealPlanItem


def plan_healing(context: CallContext, asked: HealRequest) -> Result[HealPlanItem]:
    """Probe, and list remedies; nothing is changed."""
    planned = context.app.engine.heal_plan(_selection(context, asked))
    return Result(answer=_plan_item(planned), error=unread_parts_error(planned.not_read))


def heal(context: CallContext, asked: HealRequest) -> Result[HealEnd]:
    """Carry out all that heal does, as one operation, and look again."""
    chosen = _selection(context, asked)
    with context.changing() as engine:
        healed = engine.heal(chosen)
    after = _plan_item(healed.left)
    item: HealEnd = {
        **outcome_item(healed.outcome),
        "left": after["items"],
        "errors": [each.message for each in healed.errors],
        "after": after,
    }
    return Result(answer=item, error=_error(healed))


def _selection(context: CallContext, asked: HealRequest) -> DriftSelection:
    from vgpumgr.engine.heal.remedy import DriftSelection

    return DriftSelection(
        hosts=tuple(known_hosts(context, asked.hosts)),
        vms=frozenset(context.app.ledger.vm(name).name for name in asked.vms),
        kinds=frozenset(asked.kinds),
    )


def _plan_item(planned: HealPlan) -> HealPlanItem:
    return {
        "items": [_remedy_item(each) for each in planned.remedies],
        "not_read": unread_items(planned.not_read),
        "hosts": planned.hosts,
        "vms": planned.vms,
        "skipped": list(planned.skipped),
    }


def _remedy_item(remedy: Remedy) -> RemedyItem:
    found = remedy.drift
    return {
        "name": drift_name(found),
        "host": found.host,
        "gpu": found.gpu,
        "vm": found.vm,
        "subject": found.subject,
        "kind": str(found.kind),
        "text": found.text,
        "by": "heal" if remedy.ours else "nobody" if remedy.way == "leave" else "you",
        "way": str(remedy.way),
        "remedy": remedy.text,
        "next": remedy.next,
    }


def _error(healed: HealReport) -> VgpumgrError | None:
    bad = [vm for vm in healed.outcome.vms if vm.state is not TaskState.DONE]
    if healed.outcome.interrupted or len(bad) == len(healed.outcome.vms) == 1:
        return failure_of(healed.outcome)
    failed = [f"{vm.vm} on {vm.host}: {vm.error or vm.state}" for vm in bad]
    failed += [error.message for error in healed.errors]
    if failed:
        return PartlyDone(
            f"{counted(len(failed), 'thing')} could not be healed",
            why="; ".join(failed[:5]),
            next="vgpumgr heal",
        )
    return unread_parts_error(healed.left.not_read)


class LiftedGpu(TypedDict):
    """A GPU that takes VMs again."""

    name: str


def lift_gpu(context: CallContext, asked: OneGpu) -> Result[LiftedGpu]:
    """Lift the quarantine of a healthy GPU."""
    context.app.require_hosts()
    name = gpu_name(asked)
    found = [each.id for each in context.app.ledger.gpus() if each.is_called(name)]
    gpu = found[0] if len(found) == 1 else name
    context.app.engine.lift(gpu)
    return Result(answer={"name": gpu})


PLAN_HEALING = Endpoint(
    name="heal.plan",
    method=HttpMethod.GET,
    path="/heal-plan",
    permission=Permission.DRIFT_READ,
    summary="What would end each difference between the ledger and the hosts.",
    asks=HealRequest,
    answers=HealPlanItem,
    kind="HealList",
    work=plan_healing,
    runs=Runs.WORKER,
)
HEAL = Endpoint(
    name="heal.apply",
    method=HttpMethod.POST,
    path="/fleet:heal",
    permission=Permission.HEAL_APPLY,
    summary="Repair what drift lists, as far as vgpumgr owns it.",
    asks=HealRequest,
    answers=HealEnd,
    kind="Heal",
    work=heal,
    runs=Runs.OPERATION,
)
LIFT_GPU = Endpoint(
    name="heal.lift",
    method=HttpMethod.POST,
    path="/gpus:lift",
    permission=Permission.HEAL_APPLY,
    summary="Lift the quarantine of a healthy GPU.",
    asks=OneGpu,
    answers=LiftedGpu,
    kind="LiftedGPU",
    work=lift_gpu,
    runs=Runs.WORKER,
)

ENDPOINTS = (PLAN_HEALING, HEAL, LIFT_GPU)
