"""What applying layouts would do to each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vgpumgr import layout
from vgpumgr.engine.layouts import keeping
from vgpumgr.engine.layouts.goals import goals_of, missing, unread_hosts
from vgpumgr.engine.made import made_for_vms
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
    unread = [*warnings]
    found: list[GpuChange] = []
    unchanged = 0
    for gpu in view.gpus:
        if gpu.id not in goals:
            continue
        if gpu.host in silent:
            unread.append(f"{gpu.host}: {silent[gpu.host]}")
            continue
        change = _change(gpu, goals[gpu.id], seen[gpu.host], made.get(gpu.id, frozenset()))
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
        return replace(
            plain,
            refused="it fell off the bus",
            next=f"vgpumgr gpu show {gpu.host}/{gpu.facts.device}",
        )
    unread = nvml_unread(gpu.facts, context.facts)
    if unread:
        why = f"NVML's part of it could not be read: {unread}"
        return replace(plain, refused=why, next=f"vgpumgr host probe {gpu.host}")
    stranger = keeping.stranger(gpu, context)
    if stranger:
        return replace(
            plain,
            refused=f"fleet {stranger} has a layout on it",
            next=f"vgpumgr host remove {gpu.host}, as that fleet",
        )
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
    keep = keeping.due(gpu, goal, changes, context, made_for_vms)
    unkept = (keeping.NOT_KEPT,) if keep and not differences else ()
    return replace(plain, differences=(*differences, *unkept), changes=changes, keep=keep)


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
