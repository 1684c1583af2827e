"""MIG, mixed-size, VFs, sizes and partitions: every decision against the supply it was made from.

A judge replays each decision step by step on supplies alone: it knows the driver's rules, and
nothing of how placement works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import (
    Assignment,
    Fleet,
    FreeVf,
    GpuSupply,
    HostSupply,
    InstanceOffer,
    InstanceSupply,
    Offer,
    PartitionSupply,
    Placed,
    Start,
    Usage,
)
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import FITS, explain, headroom, place
from vgpumgr.placement.board import BoardBook
from vgpumgr.placement.demand import demand_of
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.room import first_fit

BREADTH = PlacementPolicy.BREADTH_FIRST
UNITS = 16
"""Two slots per MIG slice of a grid of 8."""

WHOLE = Offer(
    profile="passthrough",
    framework=Framework.PASSTHROUGH,
    type_id="",
    units=UNITS,
    max_instances=1,
    memory_mib=16384,
)


def vgpu(gib: int, series: str = "Q") -> Offer:
    return Offer(
        profile=f"X-{gib}{series}",
        framework=Framework.VFIO_VF,
        type_id=f"{gib}{series}",
        units=gib,
        max_instances=UNITS // gib,
        memory_mib=gib * 1024,
        size_class=gib,
        max_per_vm=1 if series == "B" else 16,
        series=series,
        needs_vf=True,
    )


def at_ids(gib: int, *ids: int) -> Offer:
    starts = tuple(Start(at=at, slots=tuple(range(at, at + gib))) for at in ids)
    return replace(vgpu(gib), starts=starts, max_instances=len(ids), size_class=0)


def mig(profile: str, slices: int, size: int, *starts: int, share: int = 1, most: int = 7) -> Offer:
    return Offer(
        profile=profile,
        framework=Framework.VFIO_VF,
        type_id=profile,
        units=2 * size // share,
        max_instances=most,
        memory_mib=2048 * size // share,
        size_class=share,
        names=(f"X-{profile}-C",),
        series="C",
        starts=tuple(Start(at=s, slots=tuple(range(2 * s, 2 * (s + size)))) for s in starts),
        needs_vf=True,
        instance=InstanceOffer(
            profile=profile.split("/")[0],
            profile_id=slices * 10 + size + 100 * ("+me" in profile),
            size=size,
            gpu_slices=slices,
            media="+me" in profile,
            per_instance=share,
        ),
    )


COUNTED = tuple(vgpu(g, s) for g in (2, 4, 8) for s in "QB")
MIXED = (at_ids(8, 0, 8), at_ids(4, 0, 5, 12), at_ids(2, 0, 3, 5, 8, 10, 14))
MIG = (
    mig("1g", 1, 1, *range(7)),
    mig("1g+me", 1, 1, *range(7), most=1),
    mig("1g.big", 1, 2, 0, 2, 4, 6, most=4),
    mig("2g", 2, 2, 0, 2, 4, most=3),
    mig("2g+me", 2, 2, 0, 2, 4, most=1),
    mig("3g", 3, 4, 0, 4, most=2),
    mig("7g", 7, 8, 0, most=1),
)
SHARED = (
    mig("3g", 3, 4, 0, 4),
    mig("3g/2", 3, 4, 0, 4, share=2),
    mig("3g/4", 3, 4, 0, 4, share=4),
    mig("1g", 1, 1, *range(7)),
)
THEMES = {"counted": COUNTED, "mixed": MIXED, "mig": MIG, "shared": SHARED, "whole": ()}
NAMES = ("X-2Q", "X-4Q", "X-4B", "1g", "2g", "3g/2", "X-2g-C", "passthrough")

_rare = st.integers(0, 7).map(lambda n: n == 7)


# --- random supplies: empty ones, filled by the judge's own rules ---


@st.composite
def gpus(draw: st.DrawFn, name: str, theme: str) -> GpuSupply:
    offers = THEMES[theme]
    passthrough = not offers or draw(st.booleans())
    gpu = GpuSupply(
        id=name,
        device=f"dev-{name}",
        model=draw(st.sampled_from(["T4", "A40"])),
        numa_node=None,
        units=UNITS,
        free_slots=tuple(range(UNITS)),
        offers=(*offers, WHOLE),
        same_size=theme == "counted",
        mixed_size=theme == "mixed",
        gpu_slices=draw(st.sampled_from([7, 7, 4, 0])) if offers in (MIG, SHARED) else 0,
        free_vfs=_vfs(draw(st.sampled_from([16, 16, 5, 3, 0]))) if offers else (),
        passthrough_blocked="" if passthrough else "VFs are on",
        blocked="quarantined" if draw(_rare) else "",
    )
    for _ in range(draw(st.sampled_from([0, 1, 4])) if offers else 0):
        gpu = draw(_filled(gpu, offers))
    return gpu


def _vfs(count: int) -> tuple[FreeVf, ...]:
    return tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(count))


@st.composite
def _filled(draw: st.DrawFn, gpu: GpuSupply, offers: Sequence[Offer]) -> GpuSupply:
    """The GPU with one more thing on it where that is allowed: a vGPU or an empty instance."""
    offer = draw(st.sampled_from(offers))
    start = draw(st.sampled_from(offer.starts)) if offer.starts else None
    slots = start.slots if start else gpu.free_slots[: offer.units]
    if not set(slots) <= set(gpu.free_slots) or len(slots) < offer.units:
        return gpu
    if offer.instance is None:
        part = _part(gpu, offer, slots, start)
        return after(gpu, part) if complaint(gpu, part) in ("", "vf") and gpu.free_vfs else gpu
    assert start is not None
    made = _instance(offer.instance, start)
    if _instance_complaint(gpu, offer, start):
        return gpu
    made = replace(
        made, id=draw(st.integers(0, 99)) * 100 + start.at, blocked="held" if draw(_rare) else ""
    )
    return _with_instance(gpu, made)


def _part(gpu: GpuSupply, offer: Offer, slots: Sequence[int], start: Start | None) -> Assignment:
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=offer,
        slots=tuple(slots),
        start=start.at if start else None,
        vf=gpu.free_vfs[0] if gpu.free_vfs else None,
    )


@st.composite
def hosts(draw: st.DrawFn, name: str, theme: str) -> HostSupply:
    if theme == "whole":
        return draw(nvswitch_hosts(name))
    count = draw(st.integers(1, 3))
    themes = [theme if draw(st.booleans()) else draw(_theme) for _ in range(count)]
    return _host(name, tuple(draw(gpus(f"{name}-g{n}", t)) for n, t in enumerate(themes)))


@st.composite
def nvswitch_hosts(draw: st.DrawFn, name: str) -> HostSupply:
    made = [draw(gpus(f"{name}-g{n}", "whole")) for n in range(4)]
    for number in draw(st.sets(st.integers(0, 3), max_size=2)):
        usage = _usage(WHOLE, "old", None)
        made[number] = replace(made[number], usages=(usage,), free_slots=())
    ids = [gpu.id for gpu in made]
    sets = [ids, ids[:2], ids[2:], *([each] for each in ids[:3])]
    shuffled = draw(st.permutations(sets))
    return replace(
        _host(name, tuple(made)),
        partitions=tuple(PartitionSupply(id=n, gpus=frozenset(s)) for n, s in enumerate(shuffled)),
    )


def _host(name: str, made: tuple[GpuSupply, ...]) -> HostSupply:
    return HostSupply(name=name, free_vcpus=99, free_memory_mib=99 * 1024, numa=(), gpus=made)


@st.composite
def parts(draw: st.DrawFn, theme: str = "") -> GpuRequest:
    """Mostly what GPUs of the theme can make."""
    framework = draw(st.sampled_from([None, None, None, "vfio-vf", "passthrough"]))
    framework = "mdev" if draw(_rare) else framework
    count = draw(st.sampled_from([1, 1, 2]))
    if draw(st.integers(0, 3)) == 3:
        memory_mib = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 17])) * 1024
        return GpuRequest(memory_mib=memory_mib, count=count, framework=framework)
    mine = [offer.profile for offer in THEMES.get(theme, ())] or ["passthrough"]
    names = NAMES if not theme or draw(_rare) else mine
    framework = framework if draw(_rare) else None
    return GpuRequest(profile=draw(st.sampled_from(names)), count=count, framework=framework)


@st.composite
def requests(draw: st.DrawFn, theme: str) -> VmSpec:
    wanted = draw(st.lists(parts(theme), min_size=1, max_size=2))
    policy = draw(st.sampled_from(PlacementPolicy))
    return VmSpec(
        name="vm", vcpus=1, memory_mib=64, gpus=tuple(wanted), numa=NumaPolicy.NONE, policy=policy
    )


_theme = st.sampled_from(["counted", "mixed", "mig", "shared"])


@st.composite
def scenes(draw: st.DrawFn, most: int = 1) -> tuple[Fleet, list[VmSpec]]:
    """A fleet, and requests that often fit it."""
    theme = draw(st.sampled_from([*THEMES, "mig", "shared"]))
    made = tuple(draw(hosts(f"h{n}", theme)) for n in range(draw(st.integers(1, 2))))
    return Fleet(hosts=made), draw(st.lists(requests(theme), min_size=1, max_size=most))


# --- the judge ---


def complaint(gpu: GpuSupply, part: Assignment) -> str:
    """The first rule that the part breaks on this GPU; empty when it is legal."""
    offer = part.offer
    if gpu.blocked or offer not in gpu.offers or any(_is_whole(u) for u in gpu.usages):
        return "gpu"
    if _is_whole(offer):
        empty = not gpu.usages and len(gpu.free_slots) == gpu.units
        taken = set(part.slots) == set(gpu.free_slots)
        return "" if empty and taken and not gpu.passthrough_blocked else "whole"
    if offer.needs_vf and (not gpu.free_vfs or part.vf != gpu.free_vfs[0]):
        return "vf"
    if offer.instance is not None:
        return _mig_complaint(gpu, part, offer.instance)
    classes = {usage.size_class for usage in gpu.usages} | {offer.size_class}
    if gpu.same_size and len(classes) > 1:
        return "same-size"
    if sum(usage.profile == offer.profile for usage in gpu.usages) >= offer.max_instances:
        return "max-instances"
    if offer.starts:
        legal = [start for start in offer.starts if start.at == part.start]
        if not legal or legal[0].slots != part.slots:
            return "start"
    elif len(set(part.slots)) != offer.units or part.start is not None:
        return "units"
    return "" if set(part.slots) <= set(gpu.free_slots) else "slots"


def _is_whole(thing: Usage | Offer) -> bool:
    return thing.framework is Framework.PASSTHROUGH


def _takes(instance: InstanceSupply, offer: Offer) -> bool:
    made = offer.instance
    return (
        made is not None
        and not instance.blocked
        and instance.profile_id == made.profile_id
        and instance.vgpus < made.per_instance
        and (not instance.vgpus or instance.size_class == offer.size_class)
        and len(instance.free) >= offer.units
    )


def _with_room(gpu: GpuSupply, offer: Offer) -> list[InstanceSupply]:
    """Instances with room, in the driver's order: lowest id first, planned ones last."""
    found = [instance for instance in gpu.instances if _takes(instance, offer)]
    return sorted(found, key=lambda i: (i.id is None, i.id or 0))


def _mig_complaint(gpu: GpuSupply, part: Assignment, made: InstanceOffer) -> str:
    room = _with_room(gpu, part.offer)
    if room:
        chosen = room[0]
        legal = not part.make_instance and part.start == chosen.start
        inside = len(part.slots) == part.offer.units and set(part.slots) <= set(chosen.free)
        return "" if legal and inside else "not the driver's instance"
    start = next((s for s in part.offer.starts if s.at == part.start), None)
    if not part.make_instance or start is None:
        return "no such start"
    if not set(part.slots) <= set(start.slots) or len(part.slots) != part.offer.units:
        return "units"
    return _instance_complaint(gpu, part.offer, start)


def _instance_complaint(gpu: GpuSupply, offer: Offer, start: Start) -> str:
    made = offer.instance
    assert made is not None
    slices = sum(i.gpu_slices for i in gpu.instances) + made.gpu_slices
    alike = sum(i.profile_id == made.profile_id for i in gpu.instances)
    if (gpu.gpu_slices and slices > gpu.gpu_slices) or alike >= offer.max_instances:
        return "slices"
    if made.media and any(instance.media for instance in gpu.instances):
        return "media"
    return "" if set(start.slots) <= set(gpu.free_slots) else "slots"


def after(gpu: GpuSupply, part: Assignment, vm: str = "old") -> GpuSupply:
    """The supply that the next look would find."""
    offer = part.offer
    if offer.instance is not None and part.make_instance:
        start = next(s for s in offer.starts if s.at == part.start)
        gpu = _with_instance(gpu, _instance(offer.instance, start))
    if offer.instance is not None:
        inside = tuple(_entered(i, part) if i.start == part.start else i for i in gpu.instances)
        gpu = replace(gpu, instances=inside)
    return replace(
        gpu,
        free_slots=tuple(slot for slot in gpu.free_slots if slot not in part.slots),
        usages=(*gpu.usages, _usage(offer, vm, part.start)),
        free_vfs=gpu.free_vfs[1:] if offer.needs_vf else gpu.free_vfs,
    )


def _usage(offer: Offer, vm: str, start: int | None) -> Usage:
    return Usage(
        profile=offer.profile,
        framework=offer.framework,
        units=offer.units,
        size_class=offer.size_class,
        vm=vm,
        start=start,
    )


def _instance(made: InstanceOffer, start: Start) -> InstanceSupply:
    return InstanceSupply(
        profile=made.profile,
        profile_id=made.profile_id,
        start=start.at,
        size=made.size,
        gpu_slices=made.gpu_slices,
        slots=start.slots,
        free=start.slots,
        media=made.media,
    )


def _with_instance(gpu: GpuSupply, made: InstanceSupply) -> GpuSupply:
    free = tuple(slot for slot in gpu.free_slots if slot not in made.slots)
    return replace(gpu, free_slots=free, instances=(*gpu.instances, made))


def _entered(instance: InstanceSupply, part: Assignment) -> InstanceSupply:
    return replace(
        instance,
        free=tuple(slot for slot in instance.free if slot not in part.slots),
        vgpus=instance.vgpus + 1,
        size_class=part.offer.size_class,
    )


def answers(offer: Offer, part: GpuRequest) -> bool:
    """The offer is what was asked for, by name or by size."""
    named = part.profile in (offer.profile, *offer.names)
    sized = not part.profile and offer.memory_mib >= (part.memory_mib or 0)
    return (named or sized) and part.framework in (None, offer.framework)


def replayed(fleet: Fleet, placed: Placed) -> Fleet:
    """The fleet after the decision; AssertionError when it breaks a rule."""
    host = next(h for h in fleet.hosts if h.name == placed.host)
    before = {gpu.id: gpu for gpu in host.gpus}
    gpus = dict(before)
    wanted = [part for part in placed.request.gpus for _ in range(part.count)]
    for part, asked in zip(placed.assignments, wanted, strict=True):
        assert answers(part.offer, asked)
    # Parts come in the order of the request, VFs and instances in the order of the search.
    left = list(placed.assignments)
    while left:
        legal = [part for part in left if not complaint(gpus[part.gpu], part)]
        assert legal, [complaint(gpus[part.gpu], part) for part in left]
        left.remove(legal[0])
        gpus[legal[0].gpu] = after(gpus[legal[0].gpu], legal[0], placed.request.name)
    _one_family(before, placed.assignments)
    _one_partition(host, placed)
    moved = replace(host, gpus=tuple(gpus.values()), free_vcpus=host.free_vcpus - 1)
    return Fleet(hosts=tuple(moved if h is host else h for h in fleet.hosts))


def _one_family(gpus: dict[str, GpuSupply], parts: Sequence[Assignment]) -> None:
    vgpus = [part for part in parts if not _is_whole(part.offer)]
    assert len({(gpus[part.gpu].model, part.offer.series) for part in vgpus}) <= 1
    assert all(len(vgpus) <= part.offer.max_per_vm for part in vgpus)


def _one_partition(host: HostSupply, placed: Placed) -> None:
    whole = frozenset(part.gpu for part in placed.assignments if _is_whole(part.offer))
    if host.partitions and whole:
        assert [p.id for p in host.partitions if p.gpus == whole] == [placed.partition]
    else:
        assert placed.partition is None


# --- the properties ---


@settings(max_examples=150, deadline=None)
@given(scenes(most=6))
def test_every_decision_is_one_that_the_drivers_would_carry_out(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, batch = scene
    for request in batch:
        (decision,) = place(fleet, [request], BREADTH)
        if isinstance(decision, Placed):
            fleet = replayed(fleet, decision)


@settings(max_examples=120, deadline=None)
@given(scenes())
def test_a_batch_is_decided_as_if_the_fleet_were_looked_at_in_between(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    batch = [replace(request, name=f"vm-{n}") for n in range(4)]
    for decision, request in zip(place(fleet, batch, BREADTH), batch, strict=True):
        (alone,) = place(fleet, [request], BREADTH)
        if not isinstance(decision, Placed):
            assert not isinstance(alone, Placed)
            return
        assert decision == alone
        fleet = replayed(fleet, decision)


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_headroom_copies_fit_and_not_one_more(scene: tuple[Fleet, list[VmSpec]]) -> None:
    fleet, (request,) = scene
    count = headroom(fleet, request, 40)
    batch = [replace(request, name=f"vm-{n}") for n in range(count + 1)]
    fits = [isinstance(decision, Placed) for decision in place(fleet, batch, BREADTH)]
    assert fits[:count] == [True] * count
    assert count == 40 or not fits[count]


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_every_gpu_has_its_answer_and_some_fits_exactly_when_the_vm_is_placed(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    told = explain(fleet, request)
    (decision,) = place(fleet, [request], BREADTH)
    assert [(r.host, r.gpu) for r in told] == [(h.name, g.id) for h in fleet.hosts for g in h.gpus]
    assert any(reason.code == FITS for reason in told) == isinstance(decision, Placed)
    if not isinstance(decision, Placed):
        assert decision.reasons == told
    assert all(reason.text for reason in told)


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_one_part_goes_to_just_those_gpus_where_a_place_is_legal(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    part = replace(request.gpus[0], count=1)
    verdicts = explain(fleet, replace(request, gpus=(part,)))
    possible = [_may_take(host, gpu, part) for host in fleet.hosts for gpu in host.gpus]
    assert [reason.code == FITS for reason in verdicts] == possible


def _may_take(host: HostSupply, gpu: GpuSupply, part: GpuRequest) -> bool:
    alone = not host.partitions or any(p.gpus == {gpu.id} for p in host.partitions)
    return any(
        not complaint(gpu, each) and (alone or not _is_whole(offer))
        for offer in gpu.offers
        if answers(offer, part)
        for each in _everything(gpu, offer)
    )


def _everything(gpu: GpuSupply, offer: Offer) -> list[Assignment]:
    """All ways to put one of the offer on the GPU, legal or not."""
    if _is_whole(offer):
        return [_part(gpu, offer, gpu.free_slots, None)]
    found = [_part(gpu, offer, gpu.free_slots[: offer.units], None)]
    found += [_part(gpu, offer, start.slots[: offer.units], start) for start in offer.starts]
    for instance in gpu.instances:
        inside = _part(gpu, offer, instance.free[: offer.units], None)
        found.append(replace(inside, start=instance.start))
    made = [replace(each, make_instance=True) for each in found]
    return found + made if offer.instance else found


@settings(max_examples=200, deadline=None)
@given(
    _theme.flatmap(lambda theme: st.tuples(gpus("g", theme), st.lists(parts(theme), max_size=6)))
)
def test_what_is_given_back_leaves_no_trace(scene: tuple[GpuSupply, list[GpuRequest]]) -> None:
    gpu, wanted = scene
    state = GpuState("h", gpu, BoardBook())
    before, taken = _snapshot(state), []
    for part in wanted:
        request = VmSpec(name="vm", vcpus=1, memory_mib=64, gpus=(part,))
        demand = demand_of(request, BREADTH, founding=False)
        found = first_fit(state, demand.kinds[0], demand)
        if found is not None:
            taken.append((_snapshot(state), state.take(*found)))
    for then, each in reversed(taken):
        state.give_back(each)
        assert _snapshot(state) == then
    assert _snapshot(state) == before


def _snapshot(state: GpuState) -> tuple[object, ...]:
    grid = state.grid
    counts = (state.live, state.classes, state.parts)
    return (
        *(grid.free, grid.instances, state.free_units, state.used, state.whole, state.vfs_taken),
        *counts,
    )
