"""Declared partitioning against what GPUs show → a plan, and its reservation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from vgpumgr import layout
from vgpumgr.engine import steps
from vgpumgr.engine.steps import ChangePart
from vgpumgr.engine.supply import HostContext, contexts, gpu_supply
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.gpu import GpuFacts, GpuHealth, GpuRecord
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import LAYOUT, OperationRecord, OperationState, Reservation, TaskRecord
from vgpumgr.model.layout import (
    GpuChange,
    GpuLayout,
    LayoutPlan,
    LayoutRecord,
    LayoutRule,
    LayoutSpec,
)


def plan(view: LedgerView, specs: Sequence[LayoutSpec], warnings: Iterable[str] = ()) -> LayoutPlan:
    """What applying these layouts would do. A later document wins on a GPU that two name."""
    return _plan(view, _wanted(view, specs), warnings)


def plan_recorded(view: LedgerView, warnings: Iterable[str] = ()) -> LayoutPlan:
    """The same for the layouts that were applied last."""
    goals = {record.gpu: (record.layout, record.goal) for record in view.layouts}
    return _plan(view, goals, warnings)


def export(view: LedgerView, hosts: Sequence[str]) -> tuple[LayoutSpec, ...]:
    """How the GPUs of these hosts (all without names) are partitioned now, one Layout per host."""
    _require_known(view, hosts)
    made = _made_for_vms(view)
    found = []
    for host in view.hosts:
        if hosts and host.name not in hosts:
            continue
        gpus = [gpu for gpu in view.gpus if gpu.host == host.name and gpu.facts.address]
        rules = [
            LayoutRule(
                layout=layout.export(_without(gpu.facts, made.get(gpu.id, frozenset()))),
                devices=(gpu.facts.device,),
            )
            for gpu in gpus
        ]
        rules = [rule for rule in rules if rule.layout != GpuLayout()]
        if rules:
            found.append(LayoutSpec(name=host.name, hosts=(host.name,), rules=tuple(rules)))
    return tuple(found)


def _without(gpu: GpuFacts, starts: frozenset[int]) -> GpuFacts:
    """The facts less the GPU instances that were made for VMs."""
    if gpu.mig is None or gpu.mig.instances is None:
        return gpu
    left = tuple(each for each in gpu.mig.instances if each.start not in starts)
    return replace(gpu, mig=replace(gpu.mig, instances=left))


def refuse(wanted: LayoutPlan) -> None:
    """Conflict naming the GPUs that cannot be changed now, and who stands in the way."""
    refused = [change for change in wanted.gpus if change.refused]
    if not refused:
        return
    first = refused[0]
    more = f" and {len(refused) - 1} more GPUs" if len(refused) > 1 else ""
    raise Conflict(
        f"{first.model} {first.device} on {first.host}{more} cannot be changed",
        why="; ".join(f"{each.host} {each.device}: {each.refused}" for each in refused[:8]),
        next=first.next or "vgpumgr layout plan -f FILE",
    )


def reservation(
    wanted: LayoutPlan,
    view: LedgerView,
    specs: Sequence[LayoutSpec],
    epoch: int,
    new_uuid: Callable[[], str],
    now: float,
) -> Reservation:
    """Everything ``layout apply`` writes before its first effect: a task per GPU that changes."""
    operation = OperationRecord(
        id=new_uuid(),
        kind="layout apply",
        state=OperationState.RUNNING,
        epoch=epoch,
        started_at=now,
    )
    changes = {change.gpu: change for change in wanted.gpus if change.changes}
    by_id = {gpu.id: gpu for gpu in view.gpus}
    records = tuple(
        LayoutRecord(
            gpu=gpu,
            host=by_id[gpu].host,
            layout=name,
            goal=goal,
            operation=operation.id,
            settled=gpu not in changes,
        )
        for gpu, (name, goal) in _wanted(view, specs).items()
    )
    written = tuple(each for each in records if not _is_recorded(each, view))
    return Reservation(
        operation=operation,
        tasks=tuple(_task(operation, change, new_uuid) for change in changes.values()),
        layouts=written,
        gpu_generations={each.gpu: by_id[each.gpu].generation for each in written},
    )


def _is_recorded(record: LayoutRecord, view: LedgerView) -> bool:
    """Is the same goal settled already? One that is not settled now has changes before it."""
    known = next((each for each in view.layouts if each.gpu == record.gpu), None)
    return known is not None and replace(known, operation=record.operation) == record


def _task(operation: OperationRecord, change: GpuChange, new_uuid: Callable[[], str]) -> TaskRecord:
    work = tuple(
        ChangePart(device=change.device, change=layout.to_plain(part)) for part in change.changes
    )
    return TaskRecord(
        id=new_uuid(),
        operation=operation.id,
        vm_id=change.gpu,
        vm=f"{change.model} {change.device}",
        host=change.host,
        verb=LAYOUT,
        steps=steps.to_records(work),
    )


def _plan(
    view: LedgerView, goals: dict[str, tuple[str, GpuLayout]], warnings: Iterable[str]
) -> LayoutPlan:
    hosts, seen = {host.name: host for host in view.hosts}, contexts(view)
    made = _made_for_vms(view)
    unread = [*warnings]
    found: list[GpuChange] = []
    unchanged = 0
    for gpu in view.gpus:
        if gpu.id not in goals:
            continue
        host, context = hosts[gpu.host], seen.get(gpu.host)
        if context is None or host.last_error:
            unread.append(f"{gpu.host}: {host.last_error or 'never probed'}")
            continue
        change = _change(gpu, goals[gpu.id], context, made.get(gpu.id, frozenset()))
        if change.differences or change.refused:
            found.append(change)
        else:
            unchanged += 1
    return LayoutPlan(gpus=tuple(found), unchanged=unchanged, warnings=tuple(dict.fromkeys(unread)))


def _change(
    gpu: GpuRecord,
    goal: tuple[str, GpuLayout],
    context: HostContext,
    made_for_vms: frozenset[int],
) -> GpuChange:
    name, wanted = goal
    plain = GpuChange(
        host=gpu.host,
        gpu=gpu.id,
        device=gpu.facts.device,
        model=gpu.facts.model,
        layout=name,
        goal=wanted,
    )
    if gpu.facts.health is GpuHealth.LOST:
        return replace(plain, refused="it fell off the bus", next="vgpumgr gpu show")
    usages = gpu_supply(gpu, context).usages
    try:
        differences, changes = layout.plan(gpu.facts, wanted, usages, made_for_vms)
    except layout.LayoutRefused as refused:
        return replace(
            plain,
            differences=layout.differences(gpu.facts, wanted, made_for_vms),
            refused=refused.message if not refused.why else f"{refused.message}: {refused.why}",
            next=refused.next,
            holders=refused.holders,
        )
    return replace(plain, differences=differences, changes=changes)


def _made_for_vms(view: LedgerView) -> dict[str, frozenset[int]]:
    """Starts of the GPU instances that VMs' allocations made, by GPU: no drift from a layout."""
    found: dict[str, set[int]] = {}
    for allocation in view.allocations:
        if allocation.instance is not None and allocation.instance.make:
            found.setdefault(allocation.gpu, set()).add(allocation.instance.start)
    return {gpu: frozenset(starts) for gpu, starts in found.items()}


def _wanted(view: LedgerView, specs: Sequence[LayoutSpec]) -> dict[str, tuple[str, GpuLayout]]:
    goals: dict[str, tuple[str, GpuLayout]] = {}
    for spec in specs:
        for host in _hosts_of(view, spec):
            gpus = [gpu for gpu in view.gpus if gpu.host == host.name]
            for gpu, goal in layout.goals(spec, host, gpus).items():
                goals[gpu] = (spec.name, goal)
    return goals


def _hosts_of(view: LedgerView, spec: LayoutSpec) -> Iterator[HostRecord]:
    _require_known(view, spec.hosts)
    for host in view.hosts:
        named = host.name in spec.hosts
        labelled = bool(spec.host_labels) and all(
            host.labels.get(key) == value for key, value in spec.host_labels.items()
        )
        if named or labelled:
            yield host


def _require_known(view: LedgerView, names: Sequence[str]) -> None:
    known = [host.name for host in view.hosts]
    for name in names:
        if name not in known:
            raise NotFound(
                f"there is no host {name}",
                why=f"enrolled: {', '.join(known) or 'none'}",
                next="vgpumgr host list",
            )
