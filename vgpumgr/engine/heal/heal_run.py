"""`heal`: drifts of the fleet's own things repaired, the others named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpumgr.engine.drift import drift_survey
from vgpumgr.engine.heal import heal_plan
from vgpumgr.engine.heal.orphans import second_look
from vgpumgr.engine.heal.remedy import (
    DriftSelection,
    EndedRecords,
    HealPlan,
    HealReport,
    Remedy,
    RemedyWay,
)
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_run
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.adoption_steps import AdoptDevice, MarkDomain
from vgpumgr.engine.steps.device_steps import (
    ActivatePartition,
    DeactivatePartition,
    RealiseDevice,
    ReleaseDevice,
)
from vgpumgr.engine.steps.domain_steps import DefineDomain, RedefineDomain, StartDomain, StopDomain
from vgpumgr.engine.steps.nic_steps import TakeNicFunction
from vgpumgr.engine.steps.repair_steps import ConfirmGone, ForgetDomain, KeepDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.health import health_machine
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import Ownership
from vgpumgr.model.drift import Drift
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.layout import LayoutRule, LayoutSpec
from vgpumgr.model.operation import CLEAN, HEAL, RELEASE, Reservation

# What has to be there before what needs it.
_ORDER: tuple[type[Step], ...] = (
    ForgetDomain,
    AdoptDevice,
    RealiseDevice,
    ActivatePartition,
    TakeNicFunction,
    KeepDomain,
    DefineDomain,
    RedefineDomain,
    MarkDomain,
    StartDomain,
    StopDomain,
    DeactivatePartition,
    ReleaseDevice,
    ConfirmGone,
)
_VERBS = {RemedyWay.VM: HEAL, RemedyWay.CLEAN: CLEAN, RemedyWay.RELEASE: RELEASE}


def reservation(
    remedies: Iterable[Remedy], view: LedgerView, opening: OperationOpening
) -> Reservation:
    """One operation. The records of living VMs are compared with what they were judged by."""
    operation = opening.operation(HEAL)
    groups = _grouped(remedies)
    tasks = tuple(
        opening.task(
            operation,
            _VERBS[way],
            _in_order(each),
            vm_id=vm_id,
            vm=each[0].whose.name if each[0].whose else "",
            host=host,
        )
        for (way, host, vm_id), each in groups.items()
    )
    living = {vm_id for way, _, vm_id in groups if way is not RemedyWay.CLEAN}
    return Reservation(
        operation=operation,
        tasks=tasks,
        changed_vms=tuple(vm for vm in view.vms if vm.id in living),
    )


def _grouped(remedies: Iterable[Remedy]) -> dict[tuple[RemedyWay, str, str], list[Remedy]]:
    groups: dict[tuple[RemedyWay, str, str], list[Remedy]] = {}
    for each in remedies:
        if each.whose is not None and each.steps:
            groups.setdefault((each.way, each.drift.host, each.whose.id), []).append(each)
    return groups


def _in_order(remedies: Sequence[Remedy]) -> tuple[Step, ...]:
    """Every step once."""
    steps: list[Step] = []
    for step in _steps(remedies):
        if step not in steps:
            steps.append(step)
    return tuple(sorted(steps, key=lambda step: _ORDER.index(type(step))))


def _steps(remedies: Iterable[Remedy]) -> Iterator[Step]:
    for remedy in remedies:
        yield from remedy.steps


Key = tuple[str, str, str, str, str]


def plan(context: EngineContext, chosen: DriftSelection) -> HealPlan:
    """Probe, compare, and say what would be done; nothing is changed."""
    return _plan(context, chosen)[0]


def _plan(context: EngineContext, chosen: DriftSelection) -> tuple[HealPlan, LedgerView]:
    around = drift_survey.look_around(context, chosen.hosts)
    report = around.report
    remedies = heal_plan.plan(report, around.view, around.seen, _past(context, around))
    planned = HealPlan(
        remedies=tuple(each for each in remedies if chosen.means(each.drift)),
        not_read=report.not_read,
        hosts=report.hosts,
        vms=report.vms,
        skipped=report.skipped,
    )
    return planned, around.view


def _past(context: EngineContext, around: drift_survey.DriftSurvey) -> EndedRecords:
    """Only what a host shows is looked up."""
    marks = [d.ownership for each in around.seen.values() for d in each.facts.domains]
    ours = {m.vm_id for m in marks if isinstance(m, Ownership) and m.fleet == around.view.fleet}
    claimed = {c.allocation for each in around.seen.values() for c in each.facts.claims}
    known = {vm.id for vm in around.view.vms}
    ended = claimed - {each.id for each in around.view.allocations}
    if not ended - known and not ours - known:
        return EndedRecords()
    released = {
        each.id: each
        for each in context.ledger.allocations(released=True)
        if each.id in ended and each.state is AllocationState.RELEASED
    }
    return EndedRecords(released, context.ledger.deleted_vms(ours - known))


def apply(context: EngineContext, chosen: DriftSelection) -> HealReport:
    """Do all that is ours to do, then look again.

    Frozen where the ledger went back in time: it would bring back what is no more.
    """
    if frozen := context.ledger.frozen():
        raise frozen.refusal("hosts are not changed to what it says")
    operation_lifecycle.finish_leftovers(context, {}, frozenset())  # those whose end alone was lost
    planned, _ = _plan(context, chosen)
    errors = [*_resumed(context, planned), *_marked(context, planned), *_laid_out(context, planned)]
    outcome = until_current(lambda: _carried_out(context, chosen, planned))
    left, _ = _plan(context, chosen)
    return HealReport(planned=planned, outcome=outcome, left=left, errors=tuple(errors))


def _resumed(context: EngineContext, planned: HealPlan) -> list[VgpumgrError]:
    """Resume interrupted operations; an operation that cannot be resumed is named, and the rest is
    done.
    """
    errors: list[VgpumgrError] = []
    cut = (each.drift.subject for each in planned.to_do if each.way is RemedyWay.RESUME)
    for operation in dict.fromkeys(subject.removeprefix("operation ") for subject in cut):
        try:
            operation_lifecycle.resume(context, operation)
        except Conflict as running:
            errors.append(running)
    return errors


def _marked(context: EngineContext, planned: HealPlan) -> list[VgpumgrError]:
    for each in planned.to_do:
        if each.way is RemedyWay.QUARANTINE:
            context.ledger.quarantine(each.drift.gpu, each.drift.text)
    return []


def _laid_out(context: EngineContext, planned: HealPlan) -> list[VgpumgrError]:
    """The recorded layout of every GPU that differs from it, as ``layout apply`` does it."""
    gpus = {each.drift.gpu for each in planned.to_do if each.way is RemedyWay.LAYOUT}
    devices = {gpu.id: gpu.facts.device for gpu in context.ledger.gpus()}
    specs = [
        LayoutSpec(
            name=record.layout,
            hosts=(record.host,),
            rules=(LayoutRule(layout=record.goal, devices=(devices[record.gpu],)),),
        )
        for record in context.ledger.layouts()
        if record.gpu in gpus
    ]
    try:
        _, outcome = layout_run.apply(context, specs) if specs else (None, Outcome())
    except Conflict as refused:
        return [refused]
    return [each.error for each in outcome.vms if each.error is not None]


def _carried_out(context: EngineContext, chosen: DriftSelection, planned: HealPlan) -> Outcome:
    """Judged anew by a fresh look: only what was planned is done, and only if it still is ours."""
    meant = {_key(each.drift) for each in planned.to_do}
    now, view = _plan(context, chosen)
    remedies = [each for each in now.to_do if _key(each.drift) in meant]
    orphans = [each for each in remedies if each.way is RemedyWay.RELEASE]
    rest = [each for each in remedies if each.way is not RemedyWay.RELEASE]
    if orphans:
        agreed, view = second_look(context, orphans, lambda: _plan(context, chosen))
        rest += agreed
    start = reservation(rest, view, context.opening())
    return operation_lifecycle.begin(context, start)


def _key(found: Drift) -> Key:
    return found.host, found.vm, found.gpu, found.kind, found.subject


def lift(context: EngineContext, gpu_id: str) -> None:
    """A GPU that is quarantined, in back-off, or out for what was reported of it, takes VMs again
    if a look shows it whole; Conflict where it does not.
    """
    gpu = next((each for each in context.ledger.gpus() if each.id == gpu_id), None)
    if gpu is not None:
        for error in context.refresh((gpu.host,)).failed.values():
            raise error
        gpu = next(each for each in context.ledger.gpus() if each.id == gpu_id)
        if gpu.facts.unfit:
            raise Conflict(
                f"{gpu_id} is {gpu.facts.health}",
                why=gpu.facts.health_detail or "its driver says so",
                next=f"vgpumgr gpu show {gpu_id}",
            )
        _refuse_what_is_read(context, gpu)
    context.ledger.lift(gpu_id)


def _refuse_what_is_read(context: EngineContext, gpu: GpuRecord) -> None:
    """What was reported can be forgotten; what is still read cannot."""
    after = health_machine.lifted(gpu.health, context.clock.now())
    if not after.state.takes_vms:
        raise Conflict(
            f"{gpu.id} is {after.state}",
            why=after.why,
            next=f"vgpumgr gpu show {gpu.id}; vgpumgr gpu reset {gpu.id} where it asks for a reset",
        )
