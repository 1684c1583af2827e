"""MIG GPU instances of a layout: the search for their places, and what is created and destroyed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.layout import mig_mode_part
from vgpumgr.layout.instance_profiles import InstanceProfile, gpu_slices, profiles
from vgpumgr.layout.target import (
    LayoutRefused,
    ReportedGpu,
    TargetInstance,
    TargetState,
    gpu_name,
    holder,
    unread,
)
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuInstance
from vgpumgr.model.layout import CreateInstance, DestroyInstance
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.supply import Usage

# Places are tried, never ordered by a rule of thumb: the driver's own choice is not lowest first,
# and an order that works for one set of instances fails for another (mig-parted permutes them).


# Losing an instance that a guest uses is no price to pay: the plan is refused where it must be.
_GUEST = 1_000

InstancePlace = tuple[TargetInstance, int]
"""A wanted instance and its first slice."""


@dataclass(frozen=True, slots=True)
class InstanceSpace:
    """What there is to build on: the profiles, the compute slices, and what must stay."""

    profiles: dict[str, InstanceProfile]
    gpu_slices: int
    fixed: tuple[GpuInstance, ...]


def arrange_instances(
    wants: Sequence[TargetInstance],
    there: Sequence[GpuInstance],
    used: Collection[int],
    ground: InstanceSpace,
) -> tuple[InstancePlace, ...] | None:
    """A place for every want, or None where they cannot all be had.

    Of all arrangements the one that keeps the most of what is ``there``, an instance ``used`` by
    guests above all, and of those the one that leaves the most room.
    """
    found = list(_arrangements(_hardest_first(wants), (), ground))
    return min(found, key=lambda each: _cost(each, there, used, ground), default=None)


def keeps_instance(places: Sequence[InstancePlace], instance: GpuInstance) -> bool:
    """Does an arrangement keep this instance as it is?"""
    return any(start == instance.start and want.keeps(instance) for want, start in places)


def _hardest_first(wants: Sequence[TargetInstance]) -> list[TargetInstance]:
    return sorted(wants, key=lambda w: (w.start is None, -w.profile.size, repr(w)))


def _arrangements(
    wants: Sequence[TargetInstance], placed: tuple[InstancePlace, ...], ground: InstanceSpace
) -> Iterator[tuple[InstancePlace, ...]]:
    if not wants:
        yield placed
        return
    want = wants[0]
    for start in _starts(want, placed):
        if _fits(want, start, placed, ground):
            yield from _arrangements(wants[1:], (*placed, (want, start)), ground)


def _starts(want: TargetInstance, placed: tuple[InstancePlace, ...]) -> Sequence[int]:
    """Equal wants take ascending places, so that no arrangement is seen twice."""
    if want.start is not None:
        return (want.start,)
    floor = placed[-1][1] if placed and placed[-1][0] == want else -1
    return [start for start in want.profile.starts if start > floor]


def _fits(
    want: TargetInstance, start: int, placed: tuple[InstancePlace, ...], ground: InstanceSpace
) -> bool:
    profile = want.profile
    names = [each.profile.name for each, _ in placed] + [each.profile for each in ground.fixed]
    known = [ground.profiles[name] for name in names if name in ground.profiles]
    return (
        start in profile.starts
        and not _mask(start, profile.size) & _taken(placed, ground)
        and sum(each.gpu_slices for each in known) + profile.gpu_slices <= ground.gpu_slices
        and not (profile.media and any(each.media for each in known))
        and names.count(profile.name) < profile.most
    )


def _cost(
    places: tuple[InstancePlace, ...],
    there: Sequence[GpuInstance],
    used: Collection[int],
    ground: InstanceSpace,
) -> tuple[int, int, list[int]]:
    lost = [each for each in there if not keeps_instance(places, each)]
    price = sum(_GUEST if each.start in used else 1 for each in lost)
    return price, -_room(places, ground), [start for _, start in places]


def _room(places: tuple[InstancePlace, ...], ground: InstanceSpace) -> int:
    """Slices of all placements that could still be had."""
    taken = _taken(places, ground)
    return sum(
        profile.size
        for profile in ground.profiles.values()
        for start in profile.starts
        if not _mask(start, profile.size) & taken
    )


def _taken(placed: Sequence[InstancePlace], ground: InstanceSpace) -> int:
    taken = 0
    for want, start in placed:
        taken |= _mask(start, want.profile.size)
    for each in ground.fixed:
        taken |= _mask(each.start, each.size)
    return taken


def _mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


# An instance that is planned has no id yet: the driver gives it one.
PLANNED = -1


def instances(gpu: GpuFacts) -> tuple[GpuInstance, ...]:
    """The GPU instances of the GPU; none where MIG is off."""
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


def clear(gpu: GpuFacts, wanted: TargetState) -> Iterator[DestroyInstance]:
    """MIG mode is changed without instances only."""
    if mig_mode_part.differs(gpu, wanted.mig):
        yield from map(_destroy, instances(gpu))


def settle(gpu: GpuFacts, wanted: TargetState) -> Iterator[DestroyInstance | CreateInstance]:
    """Destroy what stands in the way or is not declared, then make what is missing."""
    if not wanted.mig:
        return
    fixed = {each.start for each in wanted.fixed}
    there = [each for each in instances(gpu) if each.start not in fixed]
    places = _arranged(gpu, wanted, there)
    yield from (_destroy(each) for each in there if not keeps_instance(places, each))
    standing = {each.start for each in there if keeps_instance(places, each)}
    yield from (_create(*place) for place in places if place[1] not in standing)


def apply(gpu: GpuFacts, change: DestroyInstance | CreateInstance) -> GpuFacts:
    """The GPU with one instance less, or one more."""
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


def look_created(seen: ReportedGpu, change: CreateInstance) -> Observed:
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


def look_destroyed(seen: ReportedGpu, change: DestroyInstance) -> Observed:
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


def _arranged(
    gpu: GpuFacts, wanted: TargetState, there: list[GpuInstance]
) -> tuple[InstancePlace, ...]:
    ground = InstanceSpace(profiles(gpu), gpu_slices(gpu), wanted.fixed)
    places = arrange_instances(wanted.instances, there, wanted.used, ground)
    if places is not None:
        return places
    empty = replace(ground, fixed=())
    alone = arrange_instances(wanted.instances, (), (), empty) if wanted.fixed else None
    raise _no_room(gpu, wanted, in_the_way=alone is not None)


def _no_room(gpu: GpuFacts, wanted: TargetState, *, in_the_way: bool) -> LayoutRefused:
    counted = Counter(_word(each) for each in wanted.instances)
    asked = ", ".join(f"{count} × {word}" for word, count in counted.items())
    if not in_the_way:
        return LayoutRefused(
            f"{gpu_name(gpu)} cannot hold {asked} at once",
            why=f"{gpu_slices(gpu)} compute slices, no overlap, one +me",
            next="declare fewer or smaller instances, or other starts",
        )
    found = ", ".join(f"{each.profile} at {each.start}" for each in wanted.fixed)
    return LayoutRefused(
        f"{gpu_name(gpu)} has no room for {asked}",
        why=f"GPU instances created for VMs are in the way: {found}",
        next="delete those VMs (vgpumgr vm delete NAME), then apply again",
        holders=tuple(f"{each.profile} at {each.start}" for each in wanted.fixed),
    )


def _word(want: TargetInstance) -> str:
    return want.profile.name if want.start is None else f"{want.profile.name} at {want.start}"


def _destroy(each: GpuInstance) -> DestroyInstance:
    return DestroyInstance(
        id=each.id, profile=each.profile, profile_id=each.profile_id, start=each.start
    )


def _create(want: TargetInstance, start: int) -> CreateInstance:
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
