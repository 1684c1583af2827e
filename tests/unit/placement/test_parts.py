"""GPU parts by size and framework, what parts of one VM must share, and NVSwitch partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import NotPlaced, Placed, Reason
from vgpumgr.model.supply import (
    Fleet,
    GpuSupply,
    HostSupply,
    InstanceOffer,
    Offer,
    PartitionSupply,
    SlotStart,
    Usage,
)
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement import FITS, explain, headroom, place

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
GIB = 1024


def offer(gib: int, series: str, **changes: object) -> Offer:
    made = Offer(
        profile=f"T4-{gib}{series}",
        framework=Framework.MDEV,
        type_id=f"{gib}{series}",
        units=gib,
        max_instances=16 // gib,
        memory_mib=gib * GIB,
        size_class=gib,
        series=series,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the names are Offer's own


WHOLE = Offer(
    profile="passthrough",
    framework=Framework.PASSTHROUGH,
    type_id="",
    units=16,
    max_instances=1,
    memory_mib=16 * GIB,
)
T4 = GpuSupply(
    id="g1",
    device="0000:41:00.0",
    model="T4",
    numa_node=None,
    units=16,
    free_slots=tuple(range(16)),
    offers=(
        *(offer(gib, series) for series in "ABCQ" for gib in (4, 8)),
        offer(16, "Q"),
        WHOLE,
    ),
    same_size=True,
)


def host(*gpus: GpuSupply, partitions: tuple[PartitionSupply, ...] = ()) -> HostSupply:
    return HostSupply(
        name="h1",
        free_vcpus=64,
        free_memory_mib=65536,
        numa=(),
        gpus=gpus,
        partitions=partitions,
    )


def vm(*parts: GpuRequest) -> VmSpec:
    return VmSpec(name="vm", vcpus=1, memory_mib=64, gpus=parts)


def sized(gib: float, count: int = 1, framework: str | None = None) -> VmSpec:
    return vm(GpuRequest(memory_mib=int(gib * GIB), count=count, framework=framework))


def named(profile: str, count: int = 1, framework: str | None = None) -> VmSpec:
    return vm(GpuRequest(profile=profile, count=count, framework=framework))


def put(where: HostSupply, request: VmSpec) -> Placed:
    (decision,) = place(Fleet(hosts=(where,)), [request], BREADTH)
    assert isinstance(decision, Placed), decision
    return decision


def made(where: HostSupply, request: VmSpec) -> list[str]:
    return [part.offer.profile for part in put(where, request).assignments]


def refusals(where: HostSupply, request: VmSpec) -> list[Reason]:
    (decision,) = place(Fleet(hosts=(where,)), [request], BREADTH)
    assert isinstance(decision, NotPlaced)
    return list(decision.reasons)


def holding(gib: int) -> GpuSupply:
    usage = Usage(
        profile=f"T4-{gib}Q", framework=Framework.MDEV, units=gib, size_class=gib, vm="old"
    )
    return replace(T4, usages=(usage,), free_slots=tuple(range(gib, 16)))


# --- by size ---


@pytest.mark.parametrize(
    ("gib", "profile"), [(1, "T4-4Q"), (4, "T4-4Q"), (5, "T4-8Q"), (9, "T4-16Q"), (16, "T4-16Q")]
)
def test_by_size_the_smallest_offer_is_taken_and_q_before_the_other_series(
    gib: int, profile: str
) -> None:
    assert made(host(T4), sized(gib)) == [profile]


def test_by_size_series_go_q_c_b_a_and_the_whole_gpu_comes_last() -> None:
    made_by = T4.offers
    order = []
    while made_by:
        gpu = replace(T4, offers=made_by)
        order += made(host(gpu), sized(8))
        made_by = tuple(each for each in made_by if each.profile != order[-1])
        made_by = tuple(each for each in made_by if each.memory_mib >= 8 * GIB)
    assert order == ["T4-8Q", "T4-8C", "T4-8B", "T4-8A", "T4-16Q", "passthrough"]


def test_by_size_time_sliced_comes_before_mig_backed() -> None:
    backed = offer(
        8,
        "Q",
        profile="1g.8gb",
        starts=(SlotStart(at=0, slots=tuple(range(8))),),
        instance=InstanceOffer(profile="1g.8gb", profile_id=1, size=1, gpu_slices=1),
    )
    assert made(host(replace(T4, offers=(backed, offer(8, "Q")))), sized(8)) == ["T4-8Q"]


def test_by_size_a_larger_one_is_taken_where_the_smallest_cannot_be() -> None:
    assert made(host(holding(8)), sized(4)) == ["T4-8Q"]
    fleet = host(holding(8), replace(T4, id="g2"))
    assert put(fleet, sized(4)).assignments[0].gpu == "g2"


def test_by_size_a_gpu_that_makes_less_is_preferred_to_one_that_makes_more() -> None:
    big = replace(T4, id="big", units=32, free_slots=tuple(range(32)), offers=(offer(16, "Q"),))
    assert put(host(big, holding(8)), sized(5)).assignments[0].offer.profile == "T4-8Q"


def test_by_size_too_much_says_what_the_largest_is() -> None:
    (refused,) = refusals(host(T4), sized(24))
    assert refused.code == "gpu-memory"
    assert "has no profile of 24 GiB or more (its largest is T4-16Q with 16 GiB)" in refused.text
    assert headroom(Fleet(hosts=(host(T4),)), sized(4)) == 4
    assert headroom(Fleet(hosts=(host(T4),)), sized(4, count=3)) == 1


def test_unknown_numbers_never_raise() -> None:
    blank = replace(T4, offers=(offer(4, "Q", memory_mib=0, units=0),), free_slots=())
    assert refusals(host(blank), sized(4))[0].code == "gpu-memory"
    assert headroom(Fleet(hosts=(host(blank),)), named("T4-4Q")) == 4
    assert refusals(host(replace(T4, offers=())), sized(1))[0].text.endswith("largest is nothing)")
    assert put(host(T4), vm(GpuRequest())).assignments[0].offer.profile == "T4-4Q"


# --- framework, layout, limiter ---


def test_the_framework_is_chosen_by_name_and_by_size() -> None:
    assert made(host(T4), sized(4, framework="passthrough")) == ["passthrough"]
    assert made(host(T4), sized(4, framework="any")) == ["T4-4Q"]
    (refused,) = refusals(host(T4), named("T4-4Q", framework="vfio-vf"))
    assert (refused.code, refused.facts["offered"]) == ("framework", "mdev")
    assert "provides T4-4Q through mdev, vfio-vf is requested" in refused.text
    (refused,) = refusals(host(T4), sized(8, framework="vfio-vf"))
    assert "provides 8 GiB through mdev, passthrough, vfio-vf is requested" in refused.text


def test_a_profile_that_only_a_layout_is_missing_for_shows_its_lines() -> None:
    gpu = replace(T4, could={"1g.10gb": "mig: true, vfs: max", "T4-4Q": "mixed_size: true"})
    (refused,) = refusals(host(gpu), named("1g.10gb"))
    assert refused.code == "needs-layout"
    assert refused.text == (
        "T4 0000:41:00.0 could provide 1g.10gb with a layout: mig: true, vfs: max"
    )
    held = replace(holding(8), could=gpu.could)
    (refused,) = refusals(host(held), named("T4-4Q"))
    assert refused.code == "same-size"
    assert "mixed_size: true" in refused.text


def test_the_frame_rate_limiter_goes_to_the_part_that_asked_and_never_to_a_whole_gpu() -> None:
    two = host(T4, replace(T4, id="g2"))
    request = vm(
        GpuRequest(profile="T4-4Q", frame_rate_limiter=False),
        GpuRequest(profile="T4-4Q"),
        GpuRequest(profile="passthrough", frame_rate_limiter=True),
    )
    parts = put(two, request).assignments
    assert [part.frame_rate_limiter for part in parts] == [False, None, None]


# --- what vGPUs of one VM must share ---


def test_vgpus_of_one_vm_are_of_one_series() -> None:
    parts = (GpuRequest(profile="T4-4Q"), GpuRequest(profile="T4-4C"))
    (refused,) = refusals(host(T4), vm(*parts))
    assert refused.code == "mix-in-vm"
    assert "only as a mix (Q series of T4, C series of T4)" in refused.text
    mixed = replace(T4, same_size=False)
    pair = vm(GpuRequest(profile="T4-4Q"), GpuRequest(profile="T4-8Q"))
    assert made(host(mixed), pair) == ["T4-4Q", "T4-8Q"]


def test_vgpus_of_one_vm_are_of_one_board_model() -> None:
    """The emptiest GPU alone would be the wrong first choice."""
    lone = replace(T4, id="lone", model="L4", offers=(replace(offer(8, "Q"), max_instances=1),))
    pair = [replace(holding(8), id="a"), replace(holding(8), id="b")]
    parts = put(host(lone, *pair), named("T4-8Q", count=2)).assignments
    assert {part.gpu for part in parts} == {"a", "b"}
    refused = refusals(host(lone, pair[0]), named("T4-8Q", count=2))
    assert {reason.code for reason in refused} == {"mix-in-vm"}
    assert headroom(Fleet(hosts=(host(lone, *pair),)), named("T4-8Q", count=2)) == 1


def test_whole_gpus_and_plain_vfs_mix_with_any() -> None:
    plain = offer(4, "", profile="MI300X-1of4", framework=Framework.PCI_VF, size_class=0)
    amd = replace(T4, id="amd", model="MI300X", offers=(plain,), same_size=False)
    request = vm(*(GpuRequest(profile=p) for p in ("T4-4Q", "MI300X-1of4", "passthrough")))
    assert len(made(host(T4, amd, replace(T4, id="g2")), request)) == 3


# --- NVSwitch partitions ---


def gpu(number: int, vm_name: str = "") -> GpuSupply:
    bare = replace(
        T4, id=f"g{number}", device=f"0000:{number:02x}:00.0", offers=(WHOLE,), module_id=number
    )
    if not vm_name:
        return bare
    usage = Usage(profile="passthrough", framework=Framework.PASSTHROUGH, units=16, vm=vm_name)
    return replace(bare, usages=(usage,), free_slots=())


SETS = ((1, 2, 3, 4), (1, 3), (2, 4), (1,), (2,), (3,), (4,))


def hgx(*held: int, sets: tuple[tuple[int, ...], ...] = SETS, name: str = "h1") -> HostSupply:
    """Four GPUs in one partition of all, two of two ({1,3} and {2,4}), and four of one."""
    partitions = tuple(
        PartitionSupply(id=n, gpus=frozenset(f"g{m}" for m in each)) for n, each in enumerate(sets)
    )
    made_up = host(*(gpu(n, "x" if n in held else "") for n in range(1, 5)), partitions=partitions)
    return replace(made_up, name=name)


def taken(decision: Placed) -> tuple[set[str], int | None]:
    return {part.gpu for part in decision.assignments}, decision.partition


def test_the_whole_gpus_of_a_vm_are_exactly_one_partition() -> None:
    assert taken(put(hgx(), named("passthrough", count=2))) == ({"g1", "g3"}, 1)
    assert taken(put(hgx(3), named("passthrough", count=2))) == ({"g2", "g4"}, 2)
    assert taken(put(hgx(), named("passthrough", count=4)))[1] == 0
    assert taken(put(host(gpu(1), gpu(2)), named("passthrough", count=2)))[1] is None


@pytest.mark.parametrize("policy", [BREADTH, DEPTH])
def test_a_single_gpu_breaks_as_few_larger_partitions_as_possible(policy: PlacementPolicy) -> None:
    fleet = Fleet(hosts=(hgx(), hgx(3, name="h2")))
    copies = [replace(named("passthrough"), name=f"vm-{n}") for n in range(3)]
    found = []
    for decision in place(fleet, copies, policy):
        assert isinstance(decision, Placed)
        found.append((decision.host, decision.assignments[0].gpu))
    assert found == [("h2", "g1"), ("h2", "g2"), ("h2", "g4")]


def test_no_free_partition_is_refused_with_who_holds_them() -> None:
    first, second, *_ = refusals(hgx(3, 4), named("passthrough", count=2))
    assert (first.code, second.code) == ("partition", "partition")
    assert first.text == ("no partition of 2 GPUs with T4 0000:01:00.0 is free: {1,3} holds VM x")
    (none, *_) = refusals(hgx(), named("passthrough", count=3))
    assert none.text == "no partition of 3 GPUs is free: h1 has partitions of 1, 2, 4 GPUs only"
    assert headroom(Fleet(hosts=(hgx(3),)), named("passthrough", count=2)) == 1
    assert headroom(Fleet(hosts=(hgx(3),)), named("passthrough")) == 3


def test_a_gpu_in_no_free_partition_does_not_fit_though_the_vm_does() -> None:
    told = explain(Fleet(hosts=(hgx(3),)), named("passthrough", count=2))
    assert [reason.code for reason in told] == ["partition", FITS, "in-use", FITS]


def test_by_size_whole_gpus_of_an_nvswitch_host_are_a_partition_too() -> None:
    assert taken(put(hgx(1), sized(8, count=2))) == ({"g2", "g4"}, 2)
    assert refusals(hgx(1), sized(8, count=4))[1].code == "partition"


def test_vgpus_on_an_nvswitch_host_need_no_partition() -> None:
    board = hgx()
    gpus = tuple(replace(each, offers=(offer(8, "C"), WHOLE)) for each in board.gpus)
    decision = put(replace(board, gpus=gpus), vm(*named("T4-8C").gpus, *named("passthrough").gpus))
    assert len(decision.assignments) == 2
    assert decision.partition in {3, 4, 5, 6}
    assert put(replace(board, gpus=gpus), named("T4-8C", count=3)).partition is None
