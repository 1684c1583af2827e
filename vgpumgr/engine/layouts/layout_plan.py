"""Layouts against the GPUs' partitions: the plan, and the transaction that carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpumgr import catalog, layout
from vgpumgr.engine.inventory.gpu_supply import gpu_supply
from vgpumgr.engine.inventory.gpu_usage import HostContents, nvml_unread
from vgpumgr.engine.inventory.host_supply import host_contents
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_goals
from vgpumgr.engine.layouts.layout_goals import (
    goals_of,
    missing,
    target_gpus,
    unread_hosts,
    whole_goal,
)
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.vm_creation import made_for_vms
from vgpumgr.engine.steps.layout_steps import ChangePart
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuHealth, GpuRecord
from vgpumgr.model.layout import GpuChange, GpuLayout, LayoutPlan, LayoutRecord, LayoutSpec
from vgpumgr.model.operation import LAYOUT, OperationRecord, Reservation, TaskRecord
from vgpumgr.model.power import PowerCap
from vgpumgr.model.supply import Usage


def plan(
    view: LedgerView, specs: Sequence[LayoutSpec] | None, warnings: Iterable[str] = ()
) -> LayoutPlan:
    """The plan of these layouts; None: the last applied ones.

    Of two documents that name a GPU the later one wins.
    """
    gone = [] if specs is not None else missing(view)
    lines = [f"{gpu.host}: {gpu.facts.model} {gpu.facts.device} is missing" for gpu in gone]
    return _plan(view, goals_of(view, specs), (*warnings, *lines))


def _plan(
    view: LedgerView, goals: dict[str, tuple[str, GpuLayout]], warnings: Iterable[str]
) -> LayoutPlan:
    silent, seen = unread_hosts(view), host_contents(view)
    made = made_for_vms(view)
    meant = [gpu for gpu in view.gpus if gpu.id in goals]
    read = [gpu for gpu in meant if gpu.host not in silent]
    caps = {each.gpu: each for each in view.caps} if read else {}
    changes = [
        _change(
            _meant(
                view,
                gpu,
                goals[gpu.id],
                seen[gpu.host],
                made.get(gpu.id, frozenset()),
                caps.get(gpu.id),
            )
        )
        for gpu in read
    ]
    found = tuple(each for each in changes if each.differences or each.refused)
    unread = [f"{gpu.host}: {silent[gpu.host]}" for gpu in meant if gpu.host in silent]
    return LayoutPlan(
        gpus=found,
        unchanged=len(changes) - len(found),
        warnings=tuple(dict.fromkeys((*warnings, *unread))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meant:
    """A GPU and what it is to be: ``declared`` is kept on its host, ``goal`` is what it is changed
    to, which has more in it where an earlier change was cut or VMs have lost their parts.
    """

    gpu: GpuRecord
    layout: str
    declared: GpuLayout
    goal: GpuLayout
    contents: HostContents
    usages: Sequence[Usage]
    made_for_vms: frozenset[int]


def _meant(
    view: LedgerView,
    gpu: GpuRecord,
    goal: tuple[str, GpuLayout],
    contents: HostContents,
    made_for_vms: frozenset[int],
    cap: PowerCap | None,
) -> _Meant:
    name, declared = goal
    usages = gpu_supply(gpu, contents).usages
    wanted = layout_goals.held_goal(whole_goal(view, gpu, declared), cap)
    return _Meant(
        gpu=gpu,
        layout=name,
        declared=declared,
        goal=layout.with_lost_mixed_size(wanted, usages),
        contents=contents,
        usages=usages,
        made_for_vms=made_for_vms,
    )


def _change(meant: _Meant) -> GpuChange:
    refused = _out_of_reach(meant)
    if refused is not None:
        why, next_step = refused
        return replace(_nothing(meant), refused=why, next=next_step)
    try:
        return _changed(meant)
    except layout.LayoutRefused as error:
        return _refused(meant, error)


def _nothing(meant: _Meant) -> GpuChange:
    facts = meant.gpu.facts
    return GpuChange(
        host=meant.gpu.host,
        gpu=meant.gpu.id,
        device=facts.device,
        model=facts.model,
        layout=meant.layout,
        goal=meant.declared,
    )


def _out_of_reach(meant: _Meant) -> tuple[str, str] | None:
    """Why nothing is planned for a GPU whatever its goal is, and what to type."""
    gpu = meant.gpu
    if gpu.facts.health is GpuHealth.LOST:
        return "it fell off the bus", f"vgpumgr gpu show {gpu.host}/{gpu.facts.device}"
    doubt = catalog.contradiction(gpu.facts)
    if doubt:
        return doubt, f"vgpumgr gpu show {gpu.host}/{gpu.facts.device}"
    unread = nvml_unread(gpu.facts, meant.contents.facts)
    if unread:
        why = f"NVML's part of it could not be read: {unread}"
        return why, f"vgpumgr host probe {gpu.host}"
    stranger = layout_goals.stranger(gpu, meant.contents)
    if stranger:
        why = f"fleet {stranger} has a layout on it"
        return why, f"vgpumgr host remove {gpu.host}, as that fleet"
    return None


def _changed(meant: _Meant) -> GpuChange:
    """Raises LayoutRefused where the goal cannot be reached now."""
    gpu, made = meant.gpu, meant.made_for_vms
    differences, changes = layout.plan(gpu.facts, meant.goal, meant.usages, made)
    keep = layout_goals.layout_to_keep(
        gpu, (meant.layout, meant.declared), changes, meant.contents, made
    )
    unkept = (layout_goals.NOT_KEPT,) if keep and not differences else ()
    return replace(_nothing(meant), differences=(*differences, *unkept), changes=changes, keep=keep)


def _refused(meant: _Meant, error: layout.LayoutRefused) -> GpuChange:
    return replace(
        _nothing(meant),
        differences=layout.differences(meant.gpu.facts, meant.goal, meant.made_for_vms),
        refused=error.message if not error.why else f"{error.message}: {error.why}",
        next=error.next,
        holders=error.holders,
    )


def refuse(wanted: LayoutPlan) -> None:
    """Conflict that names the GPUs that cannot be changed now, and the VMs that use them."""
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
    specs: Sequence[LayoutSpec] | None,
    opening: OperationOpening,
) -> Reservation:
    """The transaction of ``layout apply``: a task per GPU that changes."""
    operation = opening.operation("layout apply")
    changes = {change.gpu: change for change in wanted.gpus if change.changes or change.keep}
    by_id, read = {gpu.id: gpu for gpu in view.gpus}, target_gpus(view, specs)
    records = tuple(
        LayoutRecord(
            gpu=gpu,
            host=by_id[gpu].host,
            layout=name,
            goal=goal,
            operation=operation.id,
            settled=gpu not in changes or not changes[gpu].changes,
        )
        for gpu, (name, goal) in goals_of(view, specs).items()
        if gpu in read
    )
    written = tuple(each for each in records if each.gpu in changes or not _is_settled(each, view))
    return Reservation(
        operation=operation,
        tasks=tuple(
            _task(opening, operation, change, by_id[change.gpu]) for change in changes.values()
        ),
        layouts=written,
        gpu_generations={each.gpu: by_id[each.gpu].generation for each in written},
    )


def _is_settled(record: LayoutRecord, view: LedgerView) -> bool:
    """Is the same goal known as reached already? Else the new operation must be the one to say."""
    known = next((each for each in view.layouts if each.gpu == record.gpu), None)
    same = known is not None and replace(known, operation=record.operation) == record
    return same and record.settled


def _task(
    opening: OperationOpening, operation: OperationRecord, change: GpuChange, gpu: GpuRecord
) -> TaskRecord:
    """The host knows of the layout before any part changes; the reservation raises generations."""
    kept = (
        [] if change.keep is None else [layout_goals.step(change, change.keep, gpu.generation + 1)]
    )
    work = [
        *kept,
        *(
            ChangePart(device=change.device, change=layout.to_plain(each))
            for each in change.changes
        ),
    ]
    return opening.task(
        operation, LAYOUT, work, vm_id=change.gpu, vm=named(change), host=change.host
    )


def named(change: GpuChange) -> str:
    """The name of a GPU's task, in the place of a VM's name."""
    return f"{change.model} {change.device}"
