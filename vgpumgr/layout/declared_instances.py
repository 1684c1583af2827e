"""The GPU instances that a layout declares: read, compared with the GPU, and exported."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpumgr.layout.instance_profiles import (
    InstanceProfile,
    compute_ids,
    compute_names,
    compute_slices,
    known_compute,
    profiles,
)
from vgpumgr.layout.instances_part import instances
from vgpumgr.layout.target import LayoutRefused, TargetInstance, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts, GpuInstance
from vgpumgr.model.layout import GpuLayout, InstanceGoal, KeptInstance


def wants(
    gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]
) -> tuple[TargetInstance, ...]:
    """What a goal declares; the instances that are there where it declares nothing.

    Raises LayoutRefused for a profile, place or compute instance that the board does not have.
    """
    if goal.instances is not None:
        return tuple(_want(gpu, each) for each in goal.instances)
    return tuple(_as_is(gpu, each) for each in instances(gpu) if each.start not in made_for_vms)


def refuse(gpu: GpuFacts, goal: GpuLayout, *, mig: bool, rebinds: bool) -> None:
    """LayoutRefused for instances without MIG, and where what would be lost is not known."""
    if goal.instances and not mig:
        raise LayoutRefused(
            f"GPU instances are declared for {gpu_name(gpu)}, whose MIG mode is off",
            why="only MIG mode has GPU instances",
            next="add mig: true",
        )
    matters = goal.instances is not None or rebinds
    if matters and gpu.mig is not None and gpu.mig.enabled and gpu.mig.instances is None:
        raise unread(gpu, "the GPU instances")


def differences(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> Iterator[str]:
    """Declared and missing, there and not declared. What was made for a VM is no difference."""
    if goal.instances is None:
        return
    if gpu.mig is not None and gpu.mig.enabled and gpu.mig.instances is None:
        yield "GPU instances: cannot be read"
        return
    pairs, left = _paired(gpu, goal.instances, made_for_vms)
    for each, found in pairs:
        if found is None:
            yield f"GPU instance {_said(each)}: declared, not there"
    yield from (f"GPU instance {one.profile} at {one.start}: not declared" for one in left)


def places(
    gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]
) -> tuple[KeptInstance, ...] | None:
    """The declared instances where they are, by place; None where none are declared."""
    if goal.instances is None:
        return None
    pairs, _ = _paired(gpu, goal.instances, made_for_vms)
    kept = [_kept(each, found) for each, found in pairs if found is not None]
    return tuple(sorted(kept, key=lambda each: each.start))


def export(gpu: GpuFacts) -> tuple[InstanceGoal, ...] | None:
    """The instances there are, as a layout would declare them; None where that is not known."""
    if gpu.mig is None or not gpu.mig.enabled or gpu.mig.instances is None:
        return None
    return tuple(
        InstanceGoal(profile=each.profile, start=each.start, compute=_compute_of(gpu, each))
        for each in gpu.mig.instances
    )


def _paired(
    gpu: GpuFacts, goals: Collection[InstanceGoal], made_for_vms: Collection[int]
) -> tuple[list[tuple[InstanceGoal, GpuInstance | None]], list[GpuInstance]]:
    """Each goal with the instance that meets it; and those there are that meet none.

    The choosiest goals choose first. What was made for a VM meets nothing.
    """
    left = [each for each in instances(gpu) if each.start not in made_for_vms]
    pairs: list[tuple[InstanceGoal, GpuInstance | None]] = []
    for each in sorted(goals, key=lambda one: (one.start is None, not one.compute)):
        found = next((one for one in left if _matches(gpu, each, one)), None)
        pairs.append((each, found))
        if found is not None:
            left.remove(found)
    return pairs, left


def _kept(goal: InstanceGoal, found: GpuInstance) -> KeptInstance:
    compute = sorted(each.profile_id for each in found.compute) if goal.compute else ()
    return KeptInstance(
        profile_id=found.profile_id, start=found.start, size=found.size, compute=tuple(compute)
    )


def _want(gpu: GpuFacts, goal: InstanceGoal) -> TargetInstance:
    profile = _profile(gpu, goal.profile)
    if goal.start is not None and goal.start not in profile.starts:
        raise LayoutRefused(
            f"{goal.profile} cannot begin at slice {goal.start} of {gpu_name(gpu)}",
            why=f"its places are {', '.join(map(str, profile.starts))}",
            next="declare one of them, or leave start out",
        )
    if not goal.compute:
        return TargetInstance(profile, goal.start)
    return TargetInstance(profile, goal.start, _compute(gpu, goal, profile))


def _profile(gpu: GpuFacts, wanted: str) -> InstanceProfile:
    known = profiles(gpu)
    if wanted in known:
        return known[wanted]
    raise LayoutRefused(
        f"{gpu_name(gpu)} has no MIG profile {wanted}",
        why=f"it has {', '.join(known) or 'none whose place on the GPU is known'}",
        next="declare one of those",
    )


def _compute(gpu: GpuFacts, goal: InstanceGoal, profile: InstanceProfile) -> tuple[int, ...]:
    known = known_compute(gpu, goal.profile)
    strange = [each for each in goal.compute if each not in known]
    if strange:
        raise LayoutRefused(
            f"{strange[0]} is not a compute instance of {goal.profile}",
            why=f"on {gpu.model} there are {', '.join(known) or 'none known'}",
            next="declare one of those, or leave compute out",
        )
    slices = compute_slices(gpu, goal.profile, goal.compute)
    if slices > profile.gpu_slices:
        raise LayoutRefused(
            f"compute instances {', '.join(goal.compute)} do not fit into one {goal.profile}",
            why=f"they take {slices} compute slices of {profile.gpu_slices}",
            next="declare fewer or smaller ones",
        )
    return compute_ids(gpu, goal.profile, goal.compute)


def _as_is(gpu: GpuFacts, each: GpuInstance) -> TargetInstance:
    """An instance to keep, or to make again after a rebind; its profile may be in no list."""
    known = profiles(gpu).get(each.profile)
    profile = known or InstanceProfile(
        each.profile, each.profile_id, each.size, 0, (each.start,), media=False, most=8
    )
    return TargetInstance(
        profile, each.start, tuple(sorted(one.profile_id for one in each.compute))
    )


def _matches(gpu: GpuFacts, goal: InstanceGoal, each: GpuInstance) -> bool:
    if goal.profile != each.profile or goal.start not in {None, each.start}:
        return False
    if not goal.compute:
        return True
    return sorted(_compute_of(gpu, each)) == sorted(goal.compute)


def _compute_of(gpu: GpuFacts, each: GpuInstance) -> tuple[str, ...]:
    ids = tuple(one.profile_id for one in each.compute)
    try:
        return compute_names(gpu, each.profile, ids)
    except KeyError:
        return tuple(f"profile-{number}" for number in ids)


def _said(goal: InstanceGoal) -> str:
    place = "" if goal.start is None else f" at {goal.start}"
    inside = f" with {', '.join(goal.compute)}" if goal.compute else ""
    return f"{goal.profile}{place}{inside}"
