"""A GPU and its goal → what differs, and the changes that end it, or why there can be none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from vgpumgr import catalog
from vgpumgr.layout import declared, mig_mode, mixed_size, order, scheduler, vfs
from vgpumgr.layout.gpu_instances import PLANNED, instances
from vgpumgr.layout.profiles import profiles
from vgpumgr.layout.refusal import LayoutRefused, name, unread
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
    _refuse_users(gpu, changes, usages, wanted.fixed)
    return found, changes


def differences(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> tuple[str, ...]:
    """How the GPU is not as declared, one sentence each."""
    return (
        *mig_mode.differences(gpu, goal),
        *vfs.differences(gpu, goal),
        *mixed_size.differences(gpu, goal),
        *scheduler.differences(gpu, goal),
        *declared.differences(gpu, goal, made_for_vms),
    )


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
    return Wanted(
        mig=mig,
        vfs=count,
        mixed_size=mixed and not mig and count > 0,
        scheduler=goal.scheduler or (None if mig else scheduler.chosen(gpu)),
        instances=declared.wants(gpu, goal, made_for_vms) if mig else (),
        fixed=_of_vms(gpu, usages, made_for_vms),
        used=frozenset(each.start for each in usages if each.start is not None),
    )


def _of_vms(
    gpu: GpuFacts, usages: Sequence[Usage], made_for_vms: Collection[int]
) -> tuple[GpuInstance, ...]:
    """Instances made for VMs, and places that VMs hold before their instance is made."""
    there = instances(gpu)
    known = {each.start for each in there}
    made = [each for each in there if each.start in made_for_vms]
    if gpu.mig is None or not gpu.mig.enabled:
        return tuple(made)
    held = {each.start: each for each in usages if each.start is not None}
    return (*made, *(_planned(gpu, held[start]) for start in sorted(held.keys() - known)))


def _planned(gpu: GpuFacts, usage: Usage) -> GpuInstance:
    board = catalog.board(gpu.model)
    types = board.types if board else ()
    behind = next((each.mig for each in types if each.profile == usage.profile), usage.profile)
    profile = profiles(gpu).get(behind)
    if profile is None or usage.start is None:
        raise unread(gpu, f"the GPU instance that {_holder(usage)} holds")
    return GpuInstance(
        id=PLANNED,
        profile=profile.name,
        profile_id=profile.id,
        start=usage.start,
        size=profile.size,
    )


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
                users = list(usages)
                _refuse_made(gpu, () if usages else of_vms)
        if users:
            raise _in_use(gpu, users)


def _refuse_made(gpu: GpuFacts, of_vms: Sequence[GpuInstance]) -> None:
    if of_vms:
        held = ", ".join(f"{each.profile} at {each.start}" for each in of_vms)
        raise LayoutRefused(
            f"{name(gpu)} holds GPU instances that were made for VMs",
            why=held,
            next="vgpumgr heal shows what is left of VMs that are gone",
        )


def _in_use(gpu: GpuFacts, users: Iterable[Usage]) -> LayoutRefused:
    holders = tuple(dict.fromkeys(_holder(each) for each in users))
    return LayoutRefused(
        f"{name(gpu)} is in use by {', '.join(holders)}",
        why="a layout never takes a GPU from a guest",
        next="vgpumgr vm stop --release-gpu NAME, or vm delete, then apply again",
        holders=holders,
    )


def _holder(usage: Usage) -> str:
    return usage.vm or usage.foreign or usage.profile
