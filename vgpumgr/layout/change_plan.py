"""The plan from a GPU to its goal: differences, and ordered changes or a refusal.

Down: VFs off, then GPU instances. Then MIG mode, which takes neither. Up: VFs on (the driver
lets go of the GPU, so that whatever stands on it comes after), then either mixed-size mode or
GPU instances with their compute instances, at last power limit and clocks. vGPU types and mdevs
belong to VMs: a layout is applied where there are none. Evidence: behaviour §4, §7, §8.

A reboot takes VFs, vGPUs and GPU instances that VMs hold. A layout brings back the partitioning
that they need, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from vgpumgr.layout import (
    declared_instances,
    instances_part,
    mig_mode_part,
    mixed_size_part,
    power_part,
    reset_part,
    scheduler_part,
    vfs_part,
)
from vgpumgr.layout.instances_part import behind, instances
from vgpumgr.layout.partition_changes import apply_change
from vgpumgr.layout.target import LayoutRefused, TargetInstance, TargetState, gpu_name, holder
from vgpumgr.model.gpu import Framework, GpuFacts, GpuHealth, GpuInstance
from vgpumgr.model.layout import (
    VFS_MAX,
    CreateInstance,
    DestroyInstance,
    GpuLayout,
    LockClocks,
    PartChange,
    ResetGpu,
    Scheduler,
    SchedulerTiming,
    SetPowerLimit,
    SetVfs,
)
from vgpumgr.model.supply import Usage


def refuse_lost(gpu: GpuFacts, wanted: TargetState, usages: Iterable[Usage]) -> None:
    """LayoutRefused where something lost could not be made again where it was."""
    for usage in usages:
        if usage.needs is not None and not _comes_back(gpu, wanted, usage):
            raise LayoutRefused(
                f"{gpu_name(gpu)} is held by {holder(usage)}",
                why=f"its {usage.profile}, which the host has lost, needs {_needed(usage)}",
                next=f"declare that, or vgpumgr vm delete {holder(usage)}, then apply again",
                holders=(holder(usage),),
            )


def from_layout(usage: Usage) -> bool:
    """Did it live in a GPU instance that a layout makes, not one that is made for it?"""
    return usage.needs is not None and bool(usage.needs.instances)


def where_they_were(
    wants: Sequence[TargetInstance], lived: Iterable[GpuInstance]
) -> tuple[TargetInstance, ...]:
    """Declared instances at the places that lost vGPUs come back to."""
    found = list(wants)
    for place in {each.start: each for each in lived}.values():
        alike = [n for n, want in enumerate(found) if want.profile.id == place.profile_id]
        there = [n for n in alike if found[n].start == place.start]
        free = [n for n in alike if found[n].start is None]
        if free and not there:
            found[free[0]] = replace(found[free[0]], start=place.start)
    return tuple(found)


def _comes_back(gpu: GpuFacts, wanted: TargetState, usage: Usage) -> bool:
    needs = usage.needs or GpuLayout()
    return (
        needs.mig in {None, wanted.mig}
        and (needs.vfs is None or vfs_part.count(gpu, needs.vfs) == wanted.vfs)
        and needs.mixed_size in {None, wanted.mixed_size}
        and (needs.mig is not True or usage.start in _starts(wanted))
    )


def _starts(wanted: TargetState) -> set[int | None]:
    return {each.start for each in wanted.instances} | {each.start for each in wanted.fixed}


def _needed(usage: Usage) -> str:
    needs = usage.needs or GpuLayout()
    lines = {
        "mig": needs.mig,
        "vfs": "max" if needs.vfs == VFS_MAX else needs.vfs,
        "mixed_size": needs.mixed_size,
        "a GPU instance at slice": usage.start if needs.mig else None,
    }
    return ", ".join(
        f"{key}: {str(value).lower()}" for key, value in lines.items() if value is not None
    )


_T = TypeVar("_T")

Stage = Callable[[GpuFacts, TargetState], Iterable[PartChange]]

STAGES: tuple[Stage, ...] = (
    vfs_part.off,
    instances_part.clear,
    mig_mode_part.switch,
    vfs_part.on,
    mixed_size_part.off,
    scheduler_part.switch,
    mixed_size_part.on,
    instances_part.settle,
    power_part.switch,
)


def ordered_changes(gpu: GpuFacts, wanted: TargetState) -> tuple[PartChange, ...]:
    """What leads from the facts to what is wanted.

    Each stage is asked about the GPU as the stages before it leave it. Raises LayoutRefused where
    declared GPU instances have no room.
    """
    due: list[PartChange] = []
    for stage in STAGES:
        for change in list(stage(gpu, wanted)):
            due.append(change)
            gpu = apply_change(gpu, change)
    return tuple(due)


ChangePlan = tuple[tuple[str, ...], tuple[PartChange, ...]]


def plan(
    gpu: GpuFacts, goal: GpuLayout, usages: Sequence[Usage], made_for_vms: Collection[int]
) -> ChangePlan:
    """Differences (sentences) and the changes that end them, in order; both empty when as declared.

    ``usages`` is all that lives on the GPU, ``made_for_vms`` the first slices of the GPU instances
    that VMs' allocations made. Raises LayoutRefused where the goal cannot be reached now.
    """
    found = differences(gpu, goal, made_for_vms)
    if not found:
        return (), ()
    _refuse_gpu(gpu, usages)
    vfs_part.refuse(gpu, goal)
    mig_mode_part.refuse(gpu, goal)
    wanted = _complete(gpu, goal, usages, made_for_vms)
    mixed_size_part.refuse(gpu, goal, wanted)
    scheduler_part.refuse(gpu, goal, wanted)
    power_part.refuse(gpu, goal)
    changes = ordered_changes(gpu, wanted)
    refuse_lost(gpu, wanted, usages)
    _refuse_users(gpu, changes, usages, wanted.fixed)
    return found, changes


def reset_plan(gpu: GpuFacts, goal: GpuLayout) -> tuple[PartChange, ...]:
    """The changes that reset a GPU which nothing uses, and make it as ``goal`` says afterwards.

    LayoutRefused where that cannot be: its driver does not reset it, or the goal is out of reach.
    """
    why = reset_part.is_resettable(gpu)
    if why:
        raise LayoutRefused(
            f"{gpu_name(gpu)} cannot be reset", why=why, next="vgpumgr gpu show HOST/DEVICE"
        )
    first: tuple[PartChange, ...] = (SetVfs(count=0),) if gpu.vfs else ()
    first = (*first, ResetGpu())
    bare = reduce(apply_change, first, gpu)
    _, after = plan(bare, goal, (), ())
    return (*first, *after)


def differences(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> tuple[str, ...]:
    """How the GPU is not as declared, one sentence each."""
    goal = _readable(gpu, goal)
    return (
        *mig_mode_part.differences(gpu, goal),
        *vfs_part.differences(gpu, goal),
        *mixed_size_part.differences(gpu, goal),
        *scheduler_part.differences(gpu, goal),
        *declared_instances.differences(gpu, goal, made_for_vms),
        *power_part.differences(gpu, goal),
    )


def _readable(gpu: GpuFacts, goal: GpuLayout) -> GpuLayout:
    """The goal of a GPU that is given whole: nobody tells its modes, and it is given with MIG off
    alone, so that only parts a whole GPU cannot have still count."""
    if not vfs_part.is_nvidia(gpu) or gpu.driver != "vfio-pci":
        return goal
    return replace(
        goal,
        mig=goal.mig or None,
        mixed_size=goal.mixed_size or None,
        instances=goal.instances or None,
        scheduler=None,
        power_limit=None,
        locked_clocks=None,
    )


def lacks(gpu: GpuFacts, usage: Usage) -> tuple[str, ...]:
    """What is not as something lost needs it, one sentence each; empty: it can be made again."""
    if usage.needs is None:
        return ()
    others = {each.start for each in instances(gpu)} - {usage.start}
    return differences(gpu, usage.needs, others)


def export(gpu: GpuFacts) -> GpuLayout:
    """The GPU's partitioning as a goal that it meets; parts it has not, or not readable, None."""
    everything = vfs_part.is_nvidia(gpu) and gpu.vfs and len(gpu.vfs) == gpu.sriov_total
    return GpuLayout(
        mig=gpu.mig.enabled if gpu.mig and gpu.mig.enabled == gpu.mig.pending else None,
        vfs=(VFS_MAX if everything else len(gpu.vfs)) if gpu.sriov_total else None,
        mixed_size=gpu.mixed_size,
        instances=declared_instances.export(gpu),
        scheduler=Scheduler(gpu.scheduler) if gpu.scheduler else None,
        power_limit=power_part.chosen_limit(gpu),
        locked_clocks=power_part.chosen_clocks(gpu),
        scheduler_timing=scheduler_part.chosen_timing(gpu),
    )


def _complete(
    gpu: GpuFacts, goal: GpuLayout, usages: Sequence[Usage], made_for_vms: Collection[int]
) -> TargetState:
    """Turning VFs or MIG mode rebinds the driver, so parts a goal leaves alone come back after."""
    mig = bool(gpu.mig and gpu.mig.enabled) if goal.mig is None else goal.mig
    count = len(gpu.vfs) if goal.vfs is None else vfs_part.count(gpu, goal.vfs)
    rebinds = mig_mode_part.differs(gpu, mig) or count != len(gpu.vfs)
    if rebinds:
        vfs_part.refuse_count(gpu, count)
    declared_instances.refuse(gpu, goal, mig=mig, rebinds=rebinds)
    mixed = bool(gpu.mixed_size) if goal.mixed_size is None else goal.mixed_size
    homeless = [each for each in usages if from_layout(each)]
    others = [each for each in usages if each not in homeless]
    wants = declared_instances.wants(gpu, goal, made_for_vms) if mig else ()
    return TargetState(
        mig=mig,
        vfs=count,
        mixed_size=mixed and not mig and count > 0,
        scheduler=goal.scheduler or (None if mig else scheduler_part.chosen(gpu)),
        scheduler_timing=_timing(gpu, goal),
        instances=where_they_were(wants, [behind(gpu, each) for each in homeless]),
        fixed=_of_vms(gpu, others, made_for_vms, mig=mig),
        used=frozenset(each.start for each in usages if each.start is not None),
        power_limit=_or(goal.power_limit, power_part.chosen_limit(gpu)),
        locked_clocks=_or(goal.locked_clocks, power_part.chosen_clocks(gpu)),
    )


def _timing(gpu: GpuFacts, goal: GpuLayout) -> SchedulerTiming | None:
    """That of another policy than the declared one is not wanted."""
    if goal.scheduler_timing is not None or goal.scheduler not in {None, gpu.scheduler}:
        return goal.scheduler_timing
    return scheduler_part.chosen_timing(gpu)


def _or(declared: _T | None, there: _T | None) -> _T | None:
    return there if declared is None else declared


def _of_vms(
    gpu: GpuFacts, usages: Sequence[Usage], made_for_vms: Collection[int], *, mig: bool
) -> tuple[GpuInstance, ...]:
    """Instances made for VMs, and places that VMs hold before their instance is made."""
    there = instances(gpu)
    known = {each.start for each in there}
    made = [each for each in there if each.start in made_for_vms]
    if not mig:
        return tuple(made)
    held = {each.start: each for each in usages if each.start is not None}
    return (*made, *(behind(gpu, held[start]) for start in sorted(held.keys() - known)))


def _refuse_gpu(gpu: GpuFacts, usages: Iterable[Usage]) -> None:
    """A GPU given whole, lost, or away from its driver cannot be partitioned."""
    whole = [each for each in usages if each.framework is Framework.PASSTHROUGH]
    if whole:
        raise _in_use(gpu, whole)
    if gpu.health is GpuHealth.LOST:
        raise LayoutRefused(
            f"{gpu_name(gpu)} fell off the bus",
            why=gpu.health_detail,
            next="vgpumgr host show HOST",
        )
    if vfs_part.is_nvidia(gpu) and gpu.driver != "nvidia":
        raise LayoutRefused(
            f"{gpu_name(gpu)} is on {gpu.driver or 'no driver'}",
            why="the nvidia driver alone partitions it",
            next="bind it to the nvidia driver, then apply again",
        )


def _refuse_users(
    gpu: GpuFacts,
    changes: Iterable[PartChange],
    usages: Sequence[Usage],
    of_vms: Sequence[GpuInstance],
) -> None:
    """Any guest blocks what concerns the whole GPU; a GPU instance is blocked by its own."""
    for change in changes:
        match change:
            case CreateInstance() | SetPowerLimit() | LockClocks():
                continue
            case DestroyInstance(start=start):
                users = [each for each in usages if each.start in {None, start}]
            case _:
                users = [each for each in usages if each.needs is None]
                _refuse_made(gpu, () if usages else of_vms)
        if users:
            raise _in_use(gpu, users)


def _refuse_made(gpu: GpuFacts, of_vms: Sequence[GpuInstance]) -> None:
    if of_vms:
        held = ", ".join(f"{each.profile} at {each.start}" for each in of_vms)
        raise LayoutRefused(
            f"{gpu_name(gpu)} holds GPU instances that were created for VMs",
            why=held,
            next="vgpumgr allocation list, and the same command when those VMs are deleted",
        )


def _in_use(gpu: GpuFacts, users: Sequence[Usage]) -> LayoutRefused:
    holders = tuple(dict.fromkeys(holder(each) for each in users))
    ours = next((each.vm for each in users if each.vm), "")
    way_out = f"vgpumgr vm delete {ours}" if ours else "end its use on the host"
    return LayoutRefused(
        f"{gpu_name(gpu)} is in use by {', '.join(holders)}",
        why="a layout never takes a GPU from a guest",
        next=f"{way_out}, then apply again",
        holders=holders,
    )
