"""The endpoints of VMs in documents: plan, apply, and which of them there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import (
    DocumentText,
    PartOfFile,
    documents_of,
    refuse_pools,
    source_name,
    typed_source,
    vm_documents,
    vms_of,
    what_stays,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.layout_items import layout_plan_item
from vgpumgr.endpoints.outcomes import failure_of, outcome_item
from vgpumgr.endpoints.own_documents import require_own_plan
from vgpumgr.endpoints.plan_items import AppliedPlan, PlanItem, plan_item
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.endpoints.replica_surplus import require_surplus, surplus_of
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import Conflict, NoPlacement, PartlyDone
from vgpumgr.model.formats import counted
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.queue import QueueState
from vgpumgr.model.rolling import RollingVms, all_rolling

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.model.apply_plan import Plan
    from vgpumgr.model.vm import VmSpec
    from vgpumgr.spec import Documents


AtOnce = Annotated[int, ParameterLimits(ge=1)]
SurplusNames = Annotated[tuple[Name, ...], ParameterLimits(max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVms(PartOfFile):
    """Documents of VMs to plan. ``at_once``: as many VMs are stopped at a time for a change, of all
    in the documents. ``prune``: surplus replicas are deleted before.
    """

    at_once: AtOnce | None = None
    prune: bool = False


def plan_vms(context: CallContext, asked: PlanVms) -> Result[PlanItem]:
    """Probe, and plan the VMs and layouts of the documents; nothing is changed."""
    documents = vm_documents(
        context, asked, hosts=Permission.HOST_READ, layouts=Permission.LAYOUT_READ
    )
    vms_of(documents, asked.source)
    context.app.require_hosts()
    layouts = _layouts(context, documents)
    item, planned = planned_item(context, documents, asked, LayoutPlan())
    if layouts != LayoutPlan():
        item["layouts"] = layout_plan_item(layouts)
    return Result(answer=item, error=unread_error(planned.warnings))


def planned_item(
    context: CallContext, documents: Documents, asked: PlanVms, layouts: LayoutPlan
) -> tuple[PlanItem, Plan]:
    """The plan of the VMs of documents, with the surplus of these; ``layouts`` are applied
    before.
    """
    from vgpumgr.engine.vms.vm_apply import ChangesBefore

    found = surplus_of(context.reads, documents.vms)
    goals = {each.gpu: each.goal for each in layouts.gpus if each.changes}
    before = ChangesBefore(found.names if asked.prune else (), goals)
    planned = context.app.engine.plan(documents.vms, _rolling(documents, asked.at_once), before)
    item = plan_item(planned)
    if items := found.items():
        item["surplus"] = items
    return item, planned


def _rolling(documents: Documents, at_once: int | None) -> RollingVms:
    """The VMs that change in waves, by their documents or as the caller says."""
    if at_once is None:
        return documents.rolling
    return all_rolling(tuple(each.name for each in documents.vms), at_once, documents.rolling)


def _layouts(context: CallContext, documents: Documents) -> LayoutPlan:
    if not documents.layouts:
        return LayoutPlan()
    return context.app.engine.layout_plan(documents.layouts)


PLAN_VMS = Endpoint(
    name="vm.plan",
    method=HttpMethod.POST,
    path="/vms:plan",
    permission=Permission.VM_PLAN,
    summary="What applying documents of VMs would do; nothing is changed.",
    asks=PlanVms,
    answers=PlanItem,
    kind="Plan",
    work=plan_vms,
    runs=Runs.WORKER,
    scoped=True,
    also=(Permission.HOST_READ, Permission.LAYOUT_READ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyVms(PartOfFile):
    """Documents of VMs to create, change and start. ``partial``: the VMs that fit, even if others
    do not; ``restart``: VMs may be stopped for changes that need it, ``at_once`` of them at a time,
    ``with_users`` even where users are at work. ``prune`` are surplus replicas, as a plan lists
    them, that are deleted before, with their disks but for ``keep_disks``.
    """

    partial: bool = False
    restart: bool = False
    at_once: AtOnce | None = None
    with_users: bool = False
    prune: SurplusNames = ()
    keep_disks: bool = False


def apply_vms(context: CallContext, asked: ApplyVms) -> Result[AppliedPlan]:
    """All are reserved, or none; Conflict where a layout among the documents is not applied."""
    from vgpumgr.engine.vms.vm_pruning import Pruning

    documents = vm_documents(
        context, asked, hosts=Permission.HOST_WRITE, layouts=Permission.LAYOUT_WRITE
    )
    wanted = vms_of(documents, asked.source)
    context.app.require_hosts()
    _require_layouts(asked.source, _layouts(context, documents))

    pruned = require_surplus(context, wanted, asked.prune) if asked.prune else ()

    def show(planned: Plan) -> None:
        require_own_plan(context, planned)
        context.planned(plan_item(planned))

    try:
        with context.changing() as engine:
            done, outcome = engine.apply(
                wanted,
                partial=asked.partial,
                restart=asked.restart,
                with_users=asked.with_users,
                rolling=_rolling(documents, asked.at_once),
                pruning=Pruning(pruned, asked.keep_disks),
                show=show,
            )
    except (Conflict, NoPlacement) as error:
        error.next = _named(error.next, asked)
        raise
    if outcome.stopped is not None:
        outcome.stopped.next = _named(outcome.stopped.next, asked)
    answer: Any = {**plan_item(done), **outcome_item(outcome)}
    return Result(
        answer=answer,
        notes=(*_surplus_notes(context, wanted, asked), *_waiting_notes(context, outcome)),
        error=failure_of(outcome)
        or _without_place(done, len(wanted), asked.source)
        or unread_error(done.warnings),
    )


def _surplus_notes(
    context: CallContext, wanted: Sequence[VmSpec], asked: DocumentText
) -> tuple[str, ...]:
    """What the file has no longer, and what to type."""
    source = typed_source(asked.source)
    notes = surplus_of(context.reads, wanted).notes()
    return tuple(note.replace("-f FILE", source) for note in notes)


def _named(next: str, asked: ApplyVms) -> str:
    """The command as it is typed: with the file, and with what else was asked for."""
    more = f" --at-once {asked.at_once}" if asked.at_once and "--at-once" not in next else ""
    more += " --prune" if asked.prune else ""
    typed = next.replace("--restart", f"--restart{more}")
    return typed.replace("-f FILE", typed_source(asked.source))


def _without_place(done: Plan, wanted: int, source: str) -> PartlyDone | None:
    if not done.unplaced:
        return None
    return PartlyDone(
        f"{len(done.unplaced)} of {wanted} VMs could not be placed",
        why=", ".join(refused.request.name for refused in done.unplaced[:10]),
        next=f"vgpumgr explain {typed_source(source)}",
    )


def _waiting_notes(context: CallContext, outcome: Outcome) -> tuple[str, ...]:
    """The VMs that were refused everywhere, and wait for another turn of the queue."""
    refused = [vm.vm for vm in outcome.vms if vm.error is not None]
    if not refused:
        return ()
    rows = context.reads.queue()
    waiting = {row.name for row in rows if row.state is QueueState.WAITING and row.name in refused}
    if not waiting:
        return ()
    verb = "waits" if len(waiting) == 1 else "wait"
    return (f"{counted(len(waiting), 'VM')} {verb} in the queue: vgpumgr queue list",)


def _require_layouts(source: str, layouts: LayoutPlan, most: int = 5) -> None:
    unmet = [gpu for gpu in layouts.gpus if gpu.changes or gpu.refused]
    if unmet:
        lines = [f"{g.host} {g.device}: {'; '.join(g.differences)}" for g in unmet[:most]]
        rest = len(unmet) - len(lines)
        raise Conflict(
            f"{counted(len(unmet), 'GPU')} not partitioned as {source} declares",
            why="; ".join([*lines, *([f"and {rest} more"] if rest else [])]),
            next=f"vgpumgr layout apply {typed_source(source)}, then the same command again",
        )


APPLY_VMS = Endpoint(
    name="vm.apply",
    method=HttpMethod.POST,
    path="/vms:apply",
    permission=Permission.VM_CREATE,
    summary="Create, change and start VMs as documents say: all that is new is reserved, or none.",
    asks=ApplyVms,
    answers=AppliedPlan,
    kind="Apply",
    work=apply_vms,
    runs=Runs.OPERATION,
    scoped=True,
    also=(Permission.HOST_WRITE, Permission.LAYOUT_WRITE, Permission.VM_DELETE),
)


class NamedVms(TypedDict):
    """The existing ones of the VMs that documents name, and the ones that wait in the queue and
    were never made. ``stays`` are documents of other kinds, which a deletion leaves as they are.
    """

    name: str
    vms: list[str]
    waiting: list[str]
    stays: str


def find_vms(context: CallContext, asked: PartOfFile) -> Result[NamedVms]:
    """Which VMs of the documents there are; PoolsInFile where there are pools, unless the file is
    mixed.
    """
    reads = context.reads
    documents = documents_of(context.app.ledger, asked)
    if not asked.mixed:
        refuse_pools(documents, asked.source)
    wanted = vms_of(documents, asked.source)
    names = {spec.name for spec in wanted}
    known = [vm.name for vm in reads.vms() if vm.name in names]
    answer: NamedVms = {
        "name": source_name(asked.source),
        "vms": known,
        "waiting": _never_made(context, names.difference(known)),
        "stays": what_stays(documents),
    }
    return Result(answer=answer, notes=surplus_of(reads, wanted).notes(applied=False))


def _never_made(context: CallContext, names: set[str]) -> list[str]:
    """The VMs that wait in the queue and were never made. A shelved VM leaves it when deleted."""
    queue = context.reads.queue()
    return [each.name for each in queue if each.name in names and each.state is QueueState.WAITING]


FIND_VMS = Endpoint(
    name="vm.find",
    method=HttpMethod.POST,
    path="/vms:find",
    permission=Permission.VM_READ,
    summary="Which of the VMs that documents name there are.",
    asks=PartOfFile,
    answers=NamedVms,
    kind="NamedVMs",
    work=find_vms,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (PLAN_VMS, APPLY_VMS, FIND_VMS)
