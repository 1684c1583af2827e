"""Parts that a goal leaves alone, filled in from elsewhere where they go with what it declares."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace

from vgpumgr.layout.plan import differences
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.placement import Usage


def beside(goal: GpuLayout, due: GpuLayout) -> GpuLayout:
    """The goal, with those parts of ``due`` that it leaves alone and that can be had beside it."""
    whole = replace(
        goal,
        mig=due.mig if goal.mig is None else goal.mig,
        vfs=due.vfs if goal.vfs is None else goal.vfs,
    )
    if goal.instances is None and whole.mig is not False:
        whole = replace(whole, instances=due.instances)
    if goal.mixed_size is None and not whole.mig and whole.vfs != 0:
        whole = replace(whole, mixed_size=due.mixed_size)
    if goal.scheduler is None and not whole.mig:
        whole = replace(whole, scheduler=due.scheduler)
    return whole


def standing(
    gpu: GpuFacts, goal: GpuLayout, before: GpuLayout, made_for_vms: Collection[int]
) -> GpuLayout:
    """The goal, with what the one ``before`` it declared, it leaves alone, and the GPU still shows:
    that stays declared, or the next boot would take it.
    """
    parts = {each.name: getattr(before, each.name) for each in fields(before)}
    alone = {name: GpuLayout(**{name: value}) for name, value in parts.items()}
    gone = [name for name, part in alone.items() if differences(gpu, part, made_for_vms)]
    return beside(goal, replace(before, **dict.fromkeys(gone)))


def brought_back(goal: GpuLayout, usages: Iterable[Usage]) -> GpuLayout:
    """The goal; mixed-size mode that it leaves alone is wanted where something lost needs it."""
    needed = any(each.needs is not None and each.needs.mixed_size for each in usages)
    return beside(goal, GpuLayout(mixed_size=True)) if needed else goal
