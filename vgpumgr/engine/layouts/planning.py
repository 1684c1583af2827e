"""What applying layouts would do to each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpumgr import catalog, layout
from vgpumgr.engine.layouts import keeping
from vgpumgr.engine.layouts.goals import goals_of, missing, unread_hosts
from vgpumgr.engine.layouts.made import made_for_vms
from vgpumgr.engine.layouts.unfinished import whole_goal
from vgpumgr.engine.supply import (
    HostContext,
    contexts,
    gpu_supply,
    nvml_unread,
)
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuHealth, GpuRecord
from vgpumgr.model.layout import (
    GpuChange,
    GpuLayout,
    LayoutPlan,
    LayoutSpec,
)
from vgpumgr.model.placement import Usage


def plan(
    view: LedgerView, specs: Sequence[LayoutSpec] | None, warnings: Iterable[str] = ()
) -> LayoutPlan:
    """What applying these layouts would do; None: those that were applied last.

    A later document wins on a GPU that two name.
    """
    gone = [] if specs is not None else missing(view)
    lines = [f"{gpu.host}: {gpu.facts.model} {gpu.facts.device} is missing" for gpu in gone]
    return _plan(view, goals_of(view, specs), (*warnings, *lines))


def _plan(
    view: LedgerView, goals: dict[str, tuple[str, GpuLayout]], warnings: Iterable[str]
) -> LayoutPlan:
    silent, seen = unread_hosts(view), contexts(view)
    made = made_for_vms(view)
    meant = [gpu for gpu in view.gpus if gpu.id in goals]
    changes = [
        _change(_meant(view, gpu, goals[gpu.id], seen[gpu.host], made.get(gpu.id, frozenset())))
        for gpu in meant
        if gpu.host not in silent
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
    context: HostContext
    usages: Sequence[Usage]
    made_for_vms: frozenset[int]


def _meant(
    view: LedgerView,
    gpu: GpuRecord,
    goal: tuple[str, GpuLayout],
    context: HostContext,
    made_for_vms: frozenset[int],
) -> _Meant:
    name, declared = goal
    usages = gpu_supply(gpu, context).usages
    return _Meant(
        gpu=gpu,
        layout=name,
        declared=declared,
        goal=layout.brought_back(whole_goal(view, gpu, declared), usages),
        context=context,
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
    unread = nvml_unread(gpu.facts, meant.context.facts)
    if unread:
        why = f"NVML's part of it could not be read: {unread}"
        return why, f"vgpumgr host probe {gpu.host}"
    stranger = keeping.stranger(gpu, meant.context)
    if stranger:
        why = f"fleet {stranger} has a layout on it"
        return why, f"vgpumgr host remove {gpu.host}, as that fleet"
    return None


def _changed(meant: _Meant) -> GpuChange:
    """Raises LayoutRefused where the goal cannot be reached now."""
    gpu, made = meant.gpu, meant.made_for_vms
    differences, changes = layout.plan(gpu.facts, meant.goal, meant.usages, made)
    keep = keeping.due(gpu, (meant.layout, meant.declared), changes, meant.context, made)
    unkept = (keeping.NOT_KEPT,) if keep and not differences else ()
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
