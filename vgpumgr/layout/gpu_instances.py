"""MIG GPU instances with their compute instances: what is declared, what is there, what is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout import mig_mode
from vgpumgr.layout.arrange import Ground, Place, arrange, kept
from vgpumgr.layout.profiles import gpu_slices, profiles
from vgpumgr.layout.refusal import LayoutRefused, holder, name, unread
from vgpumgr.layout.seen import Seen
from vgpumgr.layout.wanted import Want, Wanted
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuInstance
from vgpumgr.model.layout import CreateInstance, DestroyInstance
from vgpumgr.model.observed import Differs, InState, Observed, Unknown
from vgpumgr.model.placement import Usage

# An instance that is planned has no id yet: the driver gives it one.
PLANNED = -1


def instances(gpu: GpuFacts) -> tuple[GpuInstance, ...]:
    """Those there are; none where MIG is off."""
    return (gpu.mig.instances or ()) if gpu.mig and gpu.mig.enabled else ()


def behind(gpu: GpuFacts, usage: Usage) -> GpuInstance:
    """The instance that a vGPU holds a place for; LayoutRefused where its profile is not known."""
    profile = profiles(gpu).get(_profile_of(gpu, usage.profile))
    if profile is None or usage.start is None:
        raise unread(gpu, f"the GPU instance that {holder(usage)} holds")
    return GpuInstance(
        id=PLANNED,
        profile=profile.name,
        profile_id=profile.id,
        start=usage.start,
        size=profile.size,
    )


def clear(gpu: GpuFacts, wanted: Wanted) -> Iterator[DestroyInstance]:
    """MIG mode is changed without instances only."""
    if mig_mode.differs(gpu, wanted.mig):
        yield from map(_destroy, instances(gpu))


def settle(gpu: GpuFacts, wanted: Wanted) -> Iterator[DestroyInstance | CreateInstance]:
    """Destroy what stands in the way or is not declared, then make what is missing."""
    if not wanted.mig:
        return
    fixed = {each.start for each in wanted.fixed}
    there = [each for each in instances(gpu) if each.start not in fixed]
    places = _arranged(gpu, wanted, there)
    yield from (_destroy(each) for each in there if not kept(places, each))
    standing = {each.start for each in there if kept(places, each)}
    yield from (_create(*place) for place in places if place[1] not in standing)


def apply(gpu: GpuFacts, change: DestroyInstance | CreateInstance) -> GpuFacts:
    """One instance less, or one more."""
    assert gpu.mig is not None, "only a GPU with MIG has instances"
    left = [each for each in gpu.mig.instances or () if each.start != change.start]
    if isinstance(change, CreateInstance):
        left.append(_made(change))
    found = tuple(sorted(left, key=lambda each: each.start))
    return replace(gpu, mig=replace(gpu.mig, instances=found))


def create_verb(change: CreateInstance) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "gi_create", {
        "profile_id": change.profile_id,
        "start": change.start,
        "size": change.size,
        "compute": list(change.compute),
    }


def destroy_verb(change: DestroyInstance) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "gi_destroy", {
        "id": change.id,
        "profile_id": change.profile_id,
        "start": change.start,
    }


def look_created(seen: Seen, change: CreateInstance) -> Observed:
    """Is it there, with the compute instances asked for?"""
    found = seen.instances
    if found is None:
        return Unknown("the GPU instances could not be read")
    for each in found:
        if (each["profile_id"], each["start"]) == (change.profile_id, change.start):
            there = tuple(sorted(one["profile_id"] for one in each["compute"]))
            same = change.compute in {(), there}
            return InState() if same else Differs(f"its compute instances are {list(there)}")
    return Differs(f"no {change.profile} at {change.start}")


def look_destroyed(seen: Seen, change: DestroyInstance) -> Observed:
    """Is it gone? MIG mode off leaves none."""
    if seen.mig is not None and not seen.mig["enabled"]:
        return InState()
    found = seen.instances
    if found is None:
        return Unknown("the GPU instances could not be read")
    for each in found:
        if (each["profile_id"], each["start"]) == (change.profile_id, change.start):
            return Differs(f"{change.profile} is at {change.start}")
    return InState()


def create_summary(change: CreateInstance) -> str:
    """A line for people."""
    inside = f" with {len(change.compute)} compute instances" if change.compute else ""
    return f"create GPU instance {change.profile} at {change.start}{inside}"


def destroy_summary(change: DestroyInstance) -> str:
    """A line for people."""
    return f"destroy GPU instance {change.profile} at {change.start}"


def _profile_of(gpu: GpuFacts, name: str) -> str:
    """The instance profile of a vGPU type, by catalogue or driver; else it is one itself."""
    board = catalog.board(gpu.model)
    if board is not None:
        return next((each.mig for each in board.types if each.profile == name), name)
    told = (gpu.mig.types if gpu.mig else None) or ()
    number = next((each.profile_id for each in told if each.profile == name), None)
    return next((each.name for each in profiles(gpu).values() if each.id == number), name)


def _arranged(gpu: GpuFacts, wanted: Wanted, there: list[GpuInstance]) -> tuple[Place, ...]:
    ground = Ground(profiles(gpu), gpu_slices(gpu), wanted.fixed)
    places = arrange(wanted.instances, there, wanted.used, ground)
    if places is not None:
        return places
    empty = replace(ground, fixed=())
    alone = arrange(wanted.instances, (), (), empty) if wanted.fixed else None
    raise _no_room(gpu, wanted, in_the_way=alone is not None)


def _no_room(gpu: GpuFacts, wanted: Wanted, *, in_the_way: bool) -> LayoutRefused:
    counted = Counter(_word(each) for each in wanted.instances)
    asked = ", ".join(f"{count} × {word}" for word, count in counted.items())
    if not in_the_way:
        return LayoutRefused(
            f"{name(gpu)} cannot hold {asked} at once",
            why=f"{gpu_slices(gpu)} compute slices, no overlap, one +me",
            next="declare fewer or smaller instances, or other starts",
        )
    found = ", ".join(f"{each.profile} at {each.start}" for each in wanted.fixed)
    return LayoutRefused(
        f"{name(gpu)} has no room for {asked}",
        why=f"GPU instances created for VMs are in the way: {found}",
        next="delete those VMs (vgpumgr vm delete NAME), then apply again",
        holders=tuple(f"{each.profile} at {each.start}" for each in wanted.fixed),
    )


def _word(want: Want) -> str:
    return want.profile.name if want.start is None else f"{want.profile.name} at {want.start}"


def _destroy(each: GpuInstance) -> DestroyInstance:
    return DestroyInstance(
        id=each.id, profile=each.profile, profile_id=each.profile_id, start=each.start
    )


def _create(want: Want, start: int) -> CreateInstance:
    return CreateInstance(
        profile=want.profile.name,
        profile_id=want.profile.id,
        start=start,
        size=want.profile.size,
        compute=want.compute or (),
    )


def _made(change: CreateInstance) -> GpuInstance:
    compute = [ComputeInstance(id=n, profile_id=each) for n, each in enumerate(change.compute)]
    return GpuInstance(
        id=PLANNED,
        profile=change.profile,
        profile_id=change.profile_id,
        start=change.start,
        size=change.size,
        compute=tuple(compute),
    )
