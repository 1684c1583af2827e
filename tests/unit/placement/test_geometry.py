"""MIG instances, mixed-size places and VFs: where a vGPU is put, and why it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, NotPlaced, Placed, Reason
from vgpumgr.model.supply import (
    Fleet,
    FreeVf,
    GpuSupply,
    HostSupply,
    InstanceOffer,
    InstanceSupply,
    Offer,
    SlotStart,
    Usage,
)
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement import Placer, headroom, place

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST


def mig(profile: str, number: int, slices: int, size: int, *starts: int, most: int = 7) -> Offer:
    """An offer on a board of 8 memory slices with one slot each."""
    return Offer(
        profile=profile,
        framework=Framework.VFIO_VF,
        type_id=profile,
        units=size,
        max_instances=most,
        memory_mib=size * 5120,
        names=(f"A100-{number}C",),
        series="C",
        starts=tuple(SlotStart(at=at, slots=tuple(range(at, at + size))) for at in starts),
        needs_vf=True,
        instance=InstanceOffer(
            profile=profile,
            profile_id=number,
            size=size,
            gpu_slices=slices,
            media=profile.endswith("+me"),
        ),
    )


A100 = GpuSupply(
    id="g1",
    device="0000:41:00.0",
    model="A100",
    numa_node=None,
    units=8,
    free_slots=tuple(range(8)),
    offers=(
        mig("1g.5gb", 19, 1, 1, *range(7)),
        mig("1g.5gb+me", 20, 1, 1, *range(7), most=1),
        mig("2g.10gb", 14, 2, 2, 0, 2, 4),
        mig("2g.10gb+me", 21, 2, 2, 0, 2, 4, most=1),
        mig("3g.20gb", 9, 3, 4, 0, 4, most=2),
        mig("4g.20gb", 5, 4, 4, 0, most=1),
        mig("7g.40gb", 0, 7, 8, 0, most=1),
    ),
    gpu_slices=7,
    free_vfs=tuple(FreeVf(number=n, address=f"0000:41:00.{4 + n}") for n in range(16)),
)


def mixed(gib: int, *ids: int) -> Offer:
    return Offer(
        profile=f"A40-{gib}Q",
        framework=Framework.VFIO_VF,
        type_id=str(gib),
        units=gib,
        max_instances=len(ids),
        memory_mib=gib * 1024,
        series="Q",
        starts=tuple(SlotStart(at=at, slots=tuple(range(at, at + gib))) for at in ids),
        needs_vf=True,
    )


A40 = replace(
    A100,
    model="A40",
    units=48,
    free_slots=tuple(range(48)),
    offers=(mixed(8, 0, 12, 24, 40), mixed(12, 0, 12, 24, 36), mixed(24, 0, 24), mixed(48, 0)),
    gpu_slices=0,
    mixed_size=True,
)


def instance(profile: str, start: int, number: int | None, **changes: object) -> InstanceSupply:
    made = next(o.instance for o in A100.offers if o.profile == profile)
    assert made is not None
    slots = tuple(range(start, start + made.size))
    supply = InstanceSupply(
        profile=profile,
        profile_id=made.profile_id,
        start=start,
        size=made.size,
        gpu_slices=made.gpu_slices,
        slots=slots,
        free=slots,
        id=number,
        media=made.media,
    )
    return replace(supply, **changes)  # type: ignore[arg-type]  # the names are InstanceSupply's


def cut(*instances: InstanceSupply, gpu: GpuSupply = A100, **changes: object) -> GpuSupply:
    taken = {slot for each in instances for slot in each.slots}
    free = tuple(slot for slot in gpu.free_slots if slot not in taken)
    cut_up = replace(gpu, instances=instances, free_slots=free)
    return replace(cut_up, **changes)  # type: ignore[arg-type]  # the names are GpuSupply's own


def host(*gpus: GpuSupply) -> HostSupply:
    return HostSupply(name="h1", free_vcpus=64, free_memory_mib=65536, numa=(), gpus=gpus)


def vms(*profiles: str) -> list[VmSpec]:
    return [
        VmSpec(name=f"vm-{n}", vcpus=1, memory_mib=64, gpus=(GpuRequest(profile=p),))
        for n, p in enumerate(profiles)
    ]


def put(
    gpus: Sequence[GpuSupply], *profiles: str, policy: PlacementPolicy = BREADTH
) -> list[Assignment]:
    decisions = place(Fleet(hosts=(host(*gpus),)), vms(*profiles), policy)
    found: list[Assignment] = []
    for decision in decisions:
        assert isinstance(decision, Placed), decision
        found += decision.assignments
    return found


def refusal(gpu: GpuSupply, *profiles: str) -> Reason:
    """Why the last of these does not fit after the others."""
    *_, last = place(Fleet(hosts=(host(gpu),)), vms(*profiles), BREADTH)
    assert isinstance(last, NotPlaced)
    return last.reasons[0]


@pytest.mark.parametrize(
    ("profiles", "starts"),
    [
        (["1g.5gb"] * 7, [6, 4, 5, 0, 1, 2, 3]),
        (["2g.10gb"] * 3 + ["1g.5gb"], [4, 0, 2, 6]),
        (["3g.20gb", "4g.20gb"], [4, 0]),
        (["1g.5gb", "3g.20gb", "2g.10gb"], [6, 0, 4]),
        (["1g.5gb", "4g.20gb", "2g.10gb"], [6, 0, 4]),
    ],
)
def test_new_instances_leave_the_most_room_as_the_driver_itself_does(
    profiles: list[str], starts: list[int]
) -> None:
    """The first two rows: NVIDIA MIG User Guide and captures of A100 and H100."""
    parts = put([A100], *profiles)
    assert [part.start for part in parts] == starts
    assert all(part.make_instance for part in parts)
    assert [part.vf.number for part in parts if part.vf] == list(range(len(parts)))


def test_an_existing_instance_is_used_and_it_is_the_drivers_choice_lowest_id_first() -> None:
    gpu = cut(
        instance("1g.5gb", 0, None),
        instance("1g.5gb", 1, 9),
        instance("1g.5gb", 2, 7, blocked="a process of the host runs in it"),
        instance("1g.5gb", 3, 8),
        instance("2g.10gb", 4, 3),
    )
    parts = put([gpu], "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb")
    assert [(part.start, part.make_instance) for part in parts] == [
        (3, False),
        (1, False),
        (0, False),
        (6, True),
    ]
    assert [part.slots for part in parts] == [(3,), (1,), (0,), (6,)]


def shared(name: str, units: int, most: int) -> Offer:
    offer = mig("4g.20gb", 5, 4, 4, 0, 4)
    assert offer.instance is not None
    return replace(
        offer,
        profile=name,
        type_id=name,
        units=units,
        size_class=units,
        instance=replace(offer.instance, per_instance=most),
    )


def test_vgpus_of_one_instance_are_held_in_any_order() -> None:
    """Who made the instance may leave first, or be put back last: it stays with who is in it."""
    fleet = Fleet(hosts=(host(replace(A100, offers=(shared("half", 2, 2),), gpu_slices=8)),))
    first, second = place(fleet, vms("half", "half"), DEPTH)
    assert isinstance(first, Placed) and isinstance(second, Placed)
    assert [each.assignments[0].make_instance for each in (first, second)] == [True, False]
    placer = Placer(fleet, DEPTH)
    placer.commit(second)
    placer.commit(first)
    again = placer.decide(vms("half")[0])
    assert isinstance(again, Placed)
    assert again.assignments[0].start == 4


def test_vgpus_share_an_instance_only_at_one_size_and_up_to_its_number() -> None:
    gpu = replace(A100, offers=(shared("half", 2, 2), shared("quarter", 1, 3)), gpu_slices=8)
    parts = put([gpu], "half", "quarter", "half", "quarter", "quarter")
    assert [(part.start, part.slots) for part in parts] == [
        (0, (0, 1)),
        (4, (4,)),
        (0, (2, 3)),
        (4, (5,)),
        (4, (6,)),
    ]
    assert [part.make_instance for part in parts] == [True, True, False, False, False]
    assert refusal(gpu, "half", "quarter", "half", "half").code == "mig-slices"
    fleet = Fleet(hosts=(host(gpu),))
    assert headroom(fleet, vms("half")[0]) == 4
    assert headroom(fleet, vms("quarter")[0]) == 6


def test_one_vgpu_alone_has_its_instance_whatever_the_slots_under_it() -> None:
    """94 GiB on 8 slices: some slices lie over 11 slots, some over 12."""
    offer = replace(
        A100.offers[0],
        units=11,
        starts=(
            SlotStart(at=0, slots=tuple(range(11))),
            SlotStart(at=1, slots=tuple(range(11, 23))),
        ),
    )
    gpu = replace(A100, units=94, free_slots=tuple(range(94)), offers=(offer,))
    assert [len(part.slots) for part in put([gpu], "1g.5gb", "1g.5gb")] == [11, 12]
    assert headroom(Fleet(hosts=(host(gpu),)), vms("1g.5gb")[0]) == 2


def test_a_type_answers_to_its_other_name() -> None:
    assert put([A100], "A100-14C")[0].offer.profile == "2g.10gb"


@pytest.mark.parametrize(
    ("gpu", "profiles", "code", "text"),
    [
        (
            cut(
                instance("1g.5gb", 0, 7, vgpus=1, free=()),
                instance("2g.10gb", 4, 5),
                usages=(
                    Usage(
                        profile="1g.5gb", framework=Framework.VFIO_VF, units=1, vm="web", start=0
                    ),
                ),
            ),
            ["3g.20gb"],
            "mig-room",
            "has no place left for 3g.20gb, which begins at slice 0, 4; in the way: "
            "1g.5gb at 0 (VM web), 2g.10gb at 4 (free)",
        ),
        (
            replace(A100, free_slots=(0, 1, 2, 4, 5, 6)),
            ["3g.20gb"],
            "mig-room",
            "in the way: units 3, 7 are taken",
        ),
        (
            cut(instance("3g.20gb", 0, 1)),
            ["3g.20gb", "3g.20gb", "3g.20gb"],
            "max-instances",
            "holds 2 3g.20gb instances, 2 is the most",
        ),
        (
            cut(instance("1g.5gb", 6, 7)),
            ["7g.40gb"],
            "mig-slices",
            "has 6 of 7 compute slices left, 7g.40gb takes 7: 1g.5gb at 6 (free)",
        ),
        (
            A100,
            ["2g.10gb+me", "1g.5gb+me"],
            "mig-media",
            "media extensions once, and they are with 2g.10gb+me at 4 (a VM of the same request)",
        ),
        (
            replace(A100, free_vfs=A100.free_vfs[:1]),
            ["1g.5gb", "1g.5gb"],
            "no-vf",
            "no VF of A100 0000:41:00.0 is free (1 were, and are planned), 1g.5gb takes one",
        ),
        (
            replace(A100, free_vfs=()),
            ["1g.5gb"],
            "no-vf",
            "no VF of A100 0000:41:00.0 is free, 1g.5gb takes one",
        ),
        (
            replace(A100, offers=(replace(A100.offers[0], starts=()),)),
            ["1g.5gb"],
            "mig-room",
            "its driver listed no place for another",
        ),
    ],
)
def test_what_stands_in_the_way_of_an_instance_is_named(
    gpu: GpuSupply, profiles: list[str], code: str, text: str
) -> None:
    refused = refusal(gpu, *profiles)
    assert refused.code == code
    assert text in refused.text


def test_depth_first_fills_existing_instances_and_gpus_already_cut() -> None:
    ready = cut(instance("1g.5gb", 6, 13), id="ready")
    opened = cut(instance("2g.10gb", 4, 5), id="opened")
    gpus = [replace(A100, id="whole"), opened, ready]
    parts = put(gpus, "1g.5gb", "1g.5gb", "1g.5gb", policy=DEPTH)
    assert [part.gpu for part in parts] == ["ready", "ready", "ready"]
    assert [part.gpu for part in put(gpus[:2], "1g.5gb", policy=DEPTH)] == ["opened"]


def test_breadth_first_spreads_and_breaks_nothing_where_it_can() -> None:
    gpus = [replace(A100, id=name) for name in "ab"]
    assert [part.gpu for part in put(gpus, "1g.5gb", "1g.5gb", "1g.5gb")] == ["a", "b", "a"]
    # Both have four free slots: on the second another 1g costs no 3g.
    first = cut(instance("4g.20gb", 0, 1, free=(), vgpus=1), id="a")
    taken = [instance("2g.10gb", at, at, free=(), vgpus=1) for at in (0, 4)]
    second = cut(*taken, id="b", gpu_slices=7)
    assert put([first, second], "1g.5gb")[0].gpu == "b"


def test_an_existing_instance_keeps_the_gpu_from_going_whole() -> None:
    whole = Offer(
        profile="passthrough",
        framework=Framework.PASSTHROUGH,
        type_id="",
        units=8,
        max_instances=1,
        memory_mib=40960,
    )
    gpu = cut(instance("1g.5gb", 6, 7), offers=(*A100.offers, whole))
    refused = refusal(gpu, "passthrough")
    assert refused.code == "in-use"
    assert "has 1 GPU instances, 1 of 8 units taken" in refused.text


def test_a_mixed_size_vgpu_lies_at_an_id_of_its_type_and_keeps_the_large_ones_free() -> None:
    parts = put([A40], "A40-8Q", "A40-24Q", "A40-12Q")
    assert [(part.offer.profile, part.start) for part in parts] == [
        ("A40-8Q", 0),
        ("A40-24Q", 24),
        ("A40-12Q", 12),
    ]
    assert [part.slots for part in parts] == [
        tuple(range(8)),
        tuple(range(24, 48)),
        tuple(range(12, 24)),
    ]


def test_a_mixed_size_gpu_without_a_free_id_says_what_lies_there() -> None:
    usage = Usage(profile="A40-8Q", framework=Framework.VFIO_VF, units=8, vm="web", start=12)
    foreign = Usage(profile="A40-8Q", framework=Framework.VFIO_VF, units=8, foreign="VF 3")
    gpu = replace(
        A40,
        usages=(usage, foreign),
        free_slots=(*range(12), *range(20, 24), *range(32, 48)),
    )
    refused = refusal(gpu, "A40-24Q")
    assert refused.code == "no-start"
    assert refused.text == (
        "A40 0000:41:00.0 has none of the placement ids of A40-24Q free (0, 24): "
        "A40-8Q at 12 (VM web), A40-8Q at an unknown id (VF 3)"
    )


def test_two_parts_of_a_vm_are_arranged_so_that_both_find_a_place() -> None:
    """Alone, small would go to 3 and keep id 2 of the large ones free."""
    small = replace(mixed(1, 0, 3), profile="small", type_id="s")
    large = replace(mixed(3, 1), profile="large", type_id="l")
    huge = replace(mixed(3, 0), profile="huge", type_id="h")
    gpu = replace(A40, units=4, free_slots=(0, 1, 2, 3), offers=(small, large, huge))
    request = replace(
        vms("small")[0], gpus=tuple(GpuRequest(profile=p) for p in ("small", "large"))
    )
    (decision,) = place(Fleet(hosts=(host(gpu),)), [request], BREADTH)
    assert isinstance(decision, Placed)
    assert [part.start for part in decision.assignments] == [0, 1]


def test_both_frameworks_of_a_profile_serve_one_fleet() -> None:
    mdev = Offer(
        profile="A40-8Q",
        framework=Framework.MDEV,
        type_id="nvidia-1",
        units=8,
        max_instances=6,
        memory_mib=8192,
        size_class=8,
    )
    old = replace(A40, id="old", offers=(mdev,), mixed_size=False, same_size=True)
    parts = put([A40, old], "A40-8Q", "A40-8Q")
    assert {part.offer.framework for part in parts} == {Framework.MDEV, Framework.VFIO_VF}
    assert headroom(Fleet(hosts=(host(A40, old),)), vms("A40-8Q")[0]) == 4 + 6
