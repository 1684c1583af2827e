"""The goal of each GPU: chosen by a layout's rules, completed, resumed, persisted on the host.

The driver forgets VFs, GPU instances, mixed-size mode, the scheduler's policy, power limit and
locked clocks when it lets go of a GPU. A plan brings back what its goal leaves alone; a plan
that is made half-way through a change no longer sees them, so they come from the changes that were
cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from vgpumgr import catalog
from vgpumgr.layout import declared_instances, vfs_part
from vgpumgr.layout.change_plan import differences
from vgpumgr.layout.instance_profiles import compute_names
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import (
    CreateInstance,
    GpuLayout,
    InstanceGoal,
    KeptInstance,
    KeptLayout,
    LayoutRule,
    LayoutSpec,
    LockClocks,
    PartChange,
    SetMixedSize,
    SetPowerLimit,
    SetScheduler,
    SetVfs,
)
from vgpumgr.model.supply import Usage


def goals(spec: LayoutSpec, host: HostRecord, gpus: Sequence[GpuRecord]) -> dict[str, GpuLayout]:
    """GPU id → goal, by the first rule that matches; empty where the layout is not for the host.

    Virtual parents are no GPUs to partition. Raises NotFound for a rule's device that the host
    does not have.
    """
    if not applies(spec, host):
        return {}
    here = [gpu for gpu in gpus if gpu.facts.address is not None]
    for rule in spec.rules:
        _require_devices(spec, rule, host, here)
    found = {gpu.id: (gpu.facts, _first(spec.rules, gpu.facts)) for gpu in here}
    return {gpu: _today(goal, facts) for gpu, (facts, goal) in found.items() if goal is not None}


def applies(spec: LayoutSpec, host: HostRecord) -> bool:
    """Is the host named, or does it carry all the labels?"""
    if host.name in spec.hosts:
        return True
    labels = spec.host_labels
    return bool(labels) and all(host.labels.get(key) == labels[key] for key in labels)


def _first(rules: Iterable[LayoutRule], gpu: GpuFacts) -> GpuLayout | None:
    return next((rule.layout for rule in rules if _matches(rule, gpu)), None)


def _today(goal: GpuLayout, gpu: GpuFacts) -> GpuLayout:
    """With the names that the profiles of its board have today."""
    board = catalog.board(gpu.model)
    if board is None or not goal.instances:
        return goal
    named = partial(catalog.name_today, board)
    instances = (
        replace(each, profile=named(each.profile), compute=tuple(map(named, each.compute)))
        for each in goal.instances
    )
    return replace(goal, instances=tuple(instances))


def _matches(rule: LayoutRule, gpu: GpuFacts) -> bool:
    if not rule.models and not rule.devices:
        return True
    models = {each.casefold() for each in rule.models}
    return gpu.device in rule.devices or gpu.model.casefold() in models


def _require_devices(
    spec: LayoutSpec, rule: LayoutRule, host: HostRecord, gpus: Sequence[GpuRecord]
) -> None:
    known = {gpu.facts.device for gpu in gpus}
    for device in rule.devices:
        if device not in known:
            raise NotFound(
                f"layout {spec.name} names {device}, and {host.name} has no such GPU",
                why=f"its GPUs are {', '.join(sorted(known)) or 'none'}",
                next=f"vgpumgr gpu list --host {host.name}",
            )


def fill_undeclared(goal: GpuLayout, due: GpuLayout) -> GpuLayout:
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
        timing = due.scheduler_timing if due.scheduler is not None else None
        whole = replace(whole, scheduler=due.scheduler, scheduler_timing=timing)
    return replace(
        whole,
        power_limit=due.power_limit if goal.power_limit is None else goal.power_limit,
        locked_clocks=due.locked_clocks if goal.locked_clocks is None else goal.locked_clocks,
    )


def still_declared(
    gpu: GpuFacts, goal: GpuLayout, before: GpuLayout, made_for_vms: Collection[int]
) -> GpuLayout:
    """The goal, with what the one ``before`` it declared, it leaves alone, and the GPU still shows:
    that stays declared, or the next boot would take it.
    """
    parts = {each.name: getattr(before, each.name) for each in fields(before)}
    alone = {name: GpuLayout(**{name: value}) for name, value in parts.items()}
    gone = [name for name, part in alone.items() if differences(gpu, part, made_for_vms)]
    return fill_undeclared(goal, replace(before, **dict.fromkeys(gone)))


def with_lost_mixed_size(goal: GpuLayout, usages: Iterable[Usage]) -> GpuLayout:
    """The goal; mixed-size mode that it leaves alone is wanted where something lost needs it."""
    needed = any(each.needs is not None and each.needs.mixed_size for each in usages)
    return fill_undeclared(goal, GpuLayout(mixed_size=True)) if needed else goal


def resumed_goal(
    gpu: GpuFacts, goal: GpuLayout, before: GpuLayout, changes: Iterable[PartChange]
) -> GpuLayout:
    """The goal, with the parts that it leaves alone as the cut changes were to bring them back.

    ``before`` is the goal that was cut: what that one declared was not brought back but wanted, and
    is wanted no more. Parts that cannot be had beside what the goal declares are not carried.
    """
    return fill_undeclared(goal, _brought_back(gpu, before, changes))


def _brought_back(gpu: GpuFacts, before: GpuLayout, changes: Iterable[PartChange]) -> GpuLayout:
    """The last word of the changes on each part that their own goal did not declare."""
    due = GpuLayout()
    for change in changes:
        match change:
            case SetVfs(count=count) if before.vfs is None:
                due = replace(due, vfs=count)
            case CreateInstance() if before.instances is None:
                due = replace(due, instances=(*(due.instances or ()), _as_goal(gpu, change)))
            case SetMixedSize(enabled=enabled) if before.mixed_size is None:
                due = replace(due, mixed_size=enabled)
            case SetScheduler(policy=policy, timing=timing) if before.scheduler is None:
                due = replace(due, scheduler=policy, scheduler_timing=timing)
            case SetPowerLimit(watts=watts) if before.power_limit is None:
                due = replace(due, power_limit=watts)
            case LockClocks(range=range_mhz) if before.locked_clocks is None:
                due = replace(due, locked_clocks=range_mhz)
            case _:
                continue
    return due


def _as_goal(gpu: GpuFacts, made: CreateInstance) -> InstanceGoal:
    try:
        compute = compute_names(gpu, made.profile, made.compute)
    except KeyError:  # of a board that the catalogue does not know: whatever is made in it
        compute = ()
    return InstanceGoal(profile=made.profile, start=made.start, compute=compute)


def to_keep(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> KeptLayout:
    """The goal made plain: counts and places as this GPU has them once it is as declared."""
    return KeptLayout(
        mig=goal.mig,
        vfs=None if goal.vfs is None else vfs_part.count(gpu, goal.vfs),
        mixed_size=goal.mixed_size,
        scheduler=goal.scheduler,
        instances=declared_instances.places(gpu, goal, made_for_vms),
        power_limit=goal.power_limit,
        locked_clocks=goal.locked_clocks,
        scheduler_timing=goal.scheduler_timing,
    )


def _listed(numbers: tuple[int, ...] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


def kept_parts(found: KeptLayout) -> Mapping[str, object]:
    """The declared parts as the helper's ``layout_claim`` takes them and its claim has them."""
    plain = {
        "mig": found.mig,
        "vfs": found.vfs,
        "mixed_size": found.mixed_size,
        "scheduler": None if found.scheduler is None else str(found.scheduler),
        "instances": None if found.instances is None else [*map(_instance, found.instances)],
        "power_limit": found.power_limit,
        "scheduler_timing": _listed(found.scheduler_timing),
        "locked_clocks": None if found.locked_clocks is None else list(found.locked_clocks),
    }
    return {name: value for name, value in plain.items() if value is not None}


def _instance(each: KeptInstance) -> dict[str, object]:
    numbers = {"profile_id": each.profile_id, "start": each.start, "size": each.size}
    return {**numbers, "compute": list(each.compute)}
