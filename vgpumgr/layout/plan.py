"""A GPU and its goal → what differs, and the changes that end it, or why there can be none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from vgpumgr.layout import declared, lost, mig_mode, mixed_size, order, scheduler, vfs
from vgpumgr.layout.gpu_instances import behind, instances
from vgpumgr.layout.refusal import LayoutRefused, holder, name
from vgpumgr.layout.wanted import Wanted
from vgpumgr.model.gpu import Framework, GpuFacts, GpuHealth, GpuInstance
from vgpumgr.model.layout import (
    VFS_MAX,
    CreateInstance,
    DestroyInstance,
    GpuLayout,
    PartChange,
    Scheduler,
)
from vgpumgr.model.placement import Usage

Plan = tuple[tuple[str, ...], tuple[PartChange, ...]]


def plan(
    gpu: GpuFacts, goal: GpuLayout, usages: Sequence[Usage], made_for_vms: Collection[int]
) -> Plan:
    """Differences (sentences) and the changes that end them, in order; both empty when as declared.

    ``usages`` is all that lives on the GPU, ``made_for_vms`` the first slices of the GPU instances
    that VMs' allocations made. Raises LayoutRefused where the goal cannot be reached now.
    """
    found = differences(gpu, goal, made_for_vms)
    if not found:
        return (), ()
    _refuse_gpu(gpu, usages)
    vfs.refuse(gpu, goal)
    mig_mode.refuse(gpu, goal)
    wanted = _complete(gpu, goal, usages, made_for_vms)
    mixed_size.refuse(gpu, goal, wanted)
    scheduler.refuse(gpu, goal, wanted)
    changes = order.changes(gpu, wanted)
    lost.refuse(gpu, wanted, usages)
    _refuse_users(gpu, changes, usages, wanted.fixed)
    return found, changes


def differences(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> tuple[str, ...]:
    """How the GPU is not as declared, one sentence each."""
    goal = _readable(gpu, goal)
    return (
        *mig_mode.differences(gpu, goal),
        *vfs.differences(gpu, goal),
        *mixed_size.differences(gpu, goal),
        *scheduler.differences(gpu, goal),
        *declared.differences(gpu, goal, made_for_vms),
    )


def _readable(gpu: GpuFacts, goal: GpuLayout) -> GpuLayout:
    """The goal of a GPU that is given whole: nobody tells its modes, and it is given with MIG off
    alone, so that only parts a whole GPU cannot have still count."""
    if not vfs.is_nvidia(gpu) or gpu.driver != "vfio-pci":
        return goal
    return replace(
        goal,
        mig=goal.mig or None,
        mixed_size=goal.mixed_size or None,
        instances=goal.instances or None,
        scheduler=None,
    )


def lacks(gpu: GpuFacts, usage: Usage) -> tuple[str, ...]:
    """What is not as something lost needs it, one sentence each; empty: it can be made again."""
    if usage.needs is None:
        return ()
    others = {each.start for each in instances(gpu)} - {usage.start}
    return differences(gpu, usage.needs, others)


def export(gpu: GpuFacts) -> GpuLayout:
    """The GPU's partitioning as a goal that it meets; parts it has not, or not readable, None."""
    everything = vfs.is_nvidia(gpu) and gpu.vfs and len(gpu.vfs) == gpu.sriov_total
    return GpuLayout(
        mig=gpu.mig.enabled if gpu.mig and gpu.mig.enabled == gpu.mig.pending else None,
        vfs=(VFS_MAX if everything else len(gpu.vfs)) if gpu.sriov_total else None,
        mixed_size=gpu.mixed_size,
        instances=declared.export(gpu),
        scheduler=Scheduler(gpu.scheduler) if gpu.scheduler else None,
    )


def _complete(
    gpu: GpuFacts, goal: GpuLayout, usages: Sequence[Usage], made_for_vms: Collection[int]
) -> Wanted:
    """Turning VFs or MIG mode rebinds the driver, so parts a goal leaves alone come back after."""
    mig = bool(gpu.mig and gpu.mig.enabled) if goal.mig is None else goal.mig
    count = len(gpu.vfs) if goal.vfs is None else vfs.count(gpu, goal.vfs)
    rebinds = mig_mode.differs(gpu, mig) or count != len(gpu.vfs)
    if rebinds:
        vfs.refuse_count(gpu, count)
    declared.refuse(gpu, goal, mig=mig, rebinds=rebinds)
    mixed = bool(gpu.mixed_size) if goal.mixed_size is None else goal.mixed_size
    homeless = [each for each in usages if lost.from_layout(each)]
    others = [each for each in usages if each not in homeless]
    wants = declared.wants(gpu, goal, made_for_vms) if mig else ()
    return Wanted(
        mig=mig,
        vfs=count,
        mixed_size=mixed and not mig and count > 0,
        scheduler=goal.scheduler or (None if mig else scheduler.chosen(gpu)),
        instances=lost.where_they_were(wants, [behind(gpu, each) for each in homeless]),
        fixed=_of_vms(gpu, others, made_for_vms, mig=mig),
        used=frozenset(each.start for each in usages if each.start is not None),
    )


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
            f"{name(gpu)} fell off the bus", why=gpu.health_detail, next="vgpumgr host show HOST"
        )
    if vfs.is_nvidia(gpu) and gpu.driver != "nvidia":
        raise LayoutRefused(
            f"{name(gpu)} is on {gpu.driver or 'no driver'}",
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
            case CreateInstance():
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
            f"{name(gpu)} holds GPU instances that were created for VMs",
            why=held,
            next="vgpumgr allocation list, and the same command when those VMs are deleted",
        )


def _in_use(gpu: GpuFacts, users: Sequence[Usage]) -> LayoutRefused:
    holders = tuple(dict.fromkeys(holder(each) for each in users))
    ours = next((each.vm for each in users if each.vm), "")
    way_out = f"vgpumgr vm delete {ours}" if ours else "end its use on the host"
    return LayoutRefused(
        f"{name(gpu)} is in use by {', '.join(holders)}",
        why="a layout never takes a GPU from a guest",
        next=f"{way_out}, then apply again",
        holders=holders,
    )
