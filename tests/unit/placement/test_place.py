"""Policies, order and headroom on fleets small enough to follow by eye."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, NumaSupply, Offer, Usage
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import headroom, place
from vgpumgr.placement.resources.host_state import FleetState

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
LEAST = PlacementPolicy.CAPACITY_FIRST

WHOLE = Offer(
    profile="passthrough",
    framework=Framework.PASSTHROUGH,
    type_id="",
    units=16,
    max_instances=1,
    memory_mib=16384,
)


def offer(gib: int) -> Offer:
    return Offer(
        profile=f"T4-{gib}Q",
        framework=Framework.MDEV,
        type_id=f"nvidia-{gib}",
        units=gib,
        max_instances=16 // gib,
        memory_mib=gib * 1024,
        size_class=gib,
    )


def gpu(name: str, *held: int, units: int = 16, numa_node: int | None = None) -> GpuSupply:
    """A T4-like GPU that holds vGPUs of the given sizes in GiB."""
    return GpuSupply(
        id=name,
        device=name,
        model="T4",
        numa_node=numa_node,
        units=units,
        free_slots=tuple(range(sum(held), units)),
        offers=(*(offer(gib) for gib in (1, 2, 4, 8, 16)), WHOLE),
        usages=tuple(
            Usage(profile=f"T4-{g}Q", framework=Framework.MDEV, units=g, size_class=g) for g in held
        ),
        same_size=True,
    )


def host(name: str, *gpus: GpuSupply, vcpus: int = 64, memory_mib: int = 65536) -> HostSupply:
    return HostSupply(
        name=name, free_vcpus=vcpus, free_memory_mib=memory_mib, numa=(), gpus=gpus
    )  # fmt: skip


def vm(*profiles: str, **changes: object) -> VmSpec:
    request = VmSpec(
        name="vm", vcpus=2, memory_mib=1024, gpus=tuple(GpuRequest(profile=p) for p in profiles)
    )
    return replace(request, **changes)  # type: ignore[arg-type]  # the names are VmSpec's own


def copies(count: int, request: VmSpec) -> list[VmSpec]:
    return [replace(request, name=f"vm-{n}") for n in range(count)]


def where(decisions: tuple[Decision, ...]) -> list[str]:
    """GPU of each VM's first part; the host for a VM without GPUs; a dash when refused."""
    found = []
    for decision in decisions:
        if isinstance(decision, NotPlaced):
            found.append("-")
        else:
            found.append(decision.assignments[0].gpu if decision.assignments else decision.host)
    return found


def test_breadth_first_goes_round_the_hosts_and_gpus() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b")), host("h2", gpu("c"), gpu("d"))))
    decisions = place(fleet, copies(6, vm("T4-4Q")), BREADTH)
    assert where(decisions) == ["a", "c", "b", "d", "a", "c"]


def test_a_gpu_that_takes_no_vms_does_not_make_its_host_look_empty() -> None:

    ill = replace(gpu("x"), blocked="quarantined")
    fleet = Fleet(
        hosts=(host("h1", gpu("a"), gpu("b")), host("h2", ill, replace(ill, id="y"), gpu("c")))
    )
    state = FleetState(fleet)
    assert [each.free_units for each in state.hosts] == [32, 16]
    assert where(place(fleet, [vm("T4-4Q")], BREADTH)) == ["a"]


def test_depth_first_fills_a_gpu_before_the_next() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b")), host("h2", gpu("c", 4))))
    decisions = place(fleet, copies(6, vm("T4-4Q")), DEPTH)
    assert where(decisions) == ["c", "c", "c", "a", "a", "a"]


def test_depth_first_prefers_a_gpu_of_the_same_size_over_a_smaller_empty_one() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("small", units=4), gpu("b", 4)),))
    assert where(place(fleet, [vm("T4-4Q")], DEPTH)) == ["b"]


@pytest.mark.parametrize("policy", [BREADTH, DEPTH])
def test_whole_gpus_are_kept_when_a_used_one_has_as_many_free_units(
    policy: PlacementPolicy,
) -> None:
    fleet = Fleet(hosts=(host("h1", gpu("small", units=12), gpu("used", 4)),))
    assert where(place(fleet, [vm("T4-4Q")], policy)) == ["used"]


def test_a_request_may_choose_its_own_policy() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b", 4)),))
    assert where(place(fleet, [vm("T4-4Q", policy=DEPTH)], BREADTH)) == ["b"]


def test_vms_without_gpus_spread_and_pack_over_hosts() -> None:
    fleet = Fleet(hosts=(host("h1", memory_mib=2048), host("h2", memory_mib=3072)))
    assert where(place(fleet, copies(3, vm()), BREADTH)) == ["h2", "h1", "h2"]
    assert where(place(fleet, copies(3, vm()), DEPTH)) == ["h1", "h1", "h2"]


def test_slots_are_the_lowest_free_ones_and_never_twice() -> None:
    fleet = Fleet(hosts=(host("h1", replace(gpu("a"), free_slots=(9, 2, 7, 5, 11))),))
    first, second = place(fleet, copies(2, vm("T4-2Q")), BREADTH)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert first.assignments[0].slots == (2, 5)
    assert second.assignments[0].slots == (7, 9)


def test_a_whole_gpu_takes_all_its_slots() -> None:
    (decision,) = place(Fleet(hosts=(host("h1", gpu("a")),)), [vm("passthrough")], BREADTH)
    assert isinstance(decision, Placed)
    assert decision.assignments[0].slots == tuple(range(16))


def test_assignments_come_in_the_order_of_the_request() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b"), gpu("c")),))
    (decision,) = place(fleet, [vm("T4-4Q", "passthrough", "T4-8Q")], BREADTH)
    assert isinstance(decision, Placed)
    made = [part.offer.profile for part in decision.assignments]
    assert made == ["T4-4Q", "passthrough", "T4-8Q"]


def test_several_vgpus_of_a_vm_may_share_a_gpu_and_never_leave_the_host() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a", 8)), host("h2", gpu("b", 8))))
    first, second = place(fleet, copies(2, vm("T4-8Q", "T4-8Q")), BREADTH)
    assert isinstance(first, NotPlaced)
    assert isinstance(second, NotPlaced)
    (pair,) = place(Fleet(hosts=(host("h3", gpu("c")),)), [vm("T4-8Q", "T4-8Q")], BREADTH)
    assert isinstance(pair, Placed)
    assert [part.slots[0] for part in pair.assignments] == [0, 8]


def test_parts_that_compete_for_a_gpu_are_arranged_so_that_all_fit() -> None:
    """The best GPU for T4-4Q alone (c) is the only one that can make T4-8Q."""
    only_4q = replace(gpu("b", 4, 4), offers=(offer(4),))
    fleet = Fleet(hosts=(host("h1", only_4q, gpu("c")),))
    (decision,) = place(fleet, [vm("T4-4Q", "T4-8Q")], BREADTH)
    assert isinstance(decision, Placed)
    assert [part.gpu for part in decision.assignments] == ["b", "c"]


def test_the_largest_come_first_when_that_places_more() -> None:
    """In the order given the desktops would break both GPUs open."""
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b")),))
    requests = [*copies(4, vm("T4-4Q")), vm("passthrough", name="whole")]
    decisions = place(fleet, requests, BREADTH)
    assert where(decisions) == ["b", "b", "b", "b", "a"]
    assert [decision.request for decision in decisions] == requests


def test_the_given_order_stands_when_another_places_no_more() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a")),))
    assert where(place(fleet, [vm("T4-4Q"), vm("passthrough")], BREADTH)) == ["a", "-"]


def test_least_fragmentation_spreads_each_type_over_the_order() -> None:
    """As they come, the 8Q would fill one GPU and the 4Q the other."""
    free_sizes = [replace(gpu(name), same_size=False) for name in "ab"]
    fleet = Fleet(hosts=(host("h1", *free_sizes),))
    requests = [*copies(2, vm("T4-8Q")), *copies(4, vm("T4-4Q"))]
    decisions = place(fleet, requests, LEAST)
    assert where(decisions) == ["a", "b", "a", "a", "b", "b"]
    assert [decision.request for decision in decisions] == requests
    assert where(place(fleet, requests, DEPTH)) == ["a", "a", "b", "b", "b", "b"]


def test_prefer_puts_a_vm_where_cpus_are_next_to_the_gpu() -> None:
    near = NumaSupply(id=0, free_cpus=(), free_memory_mib=65536)
    far = NumaSupply(id=1, free_cpus=(8, 9), free_memory_mib=65536)
    split = replace(host("h1", gpu("a", numa_node=0), gpu("b", 8, numa_node=1)), numa=(near, far))
    first, second = place(Fleet(hosts=(split,)), copies(2, vm("T4-8Q", pin_cpus=True)), BREADTH)
    assert isinstance(first, Placed)
    assert isinstance(second, NotPlaced)
    assert (first.assignments[0].gpu, first.numa_node, first.cpus) == ("b", 1, (8, 9))


def test_prefer_chooses_the_host_where_all_lies_on_one_node() -> None:
    cramped = NumaSupply(id=0, free_cpus=(), free_memory_mib=0)
    roomy = NumaSupply(id=0, free_cpus=(), free_memory_mib=65536)
    best = replace(host("h1", gpu("a", numa_node=0)), numa=(cramped,))
    near = replace(host("h2", gpu("b", 4, numa_node=0)), numa=(roomy,))
    fleet = Fleet(hosts=(best, near))
    assert where(place(fleet, [vm("T4-4Q")], BREADTH)) == ["b"]
    assert where(place(fleet, [vm("T4-4Q", numa=NumaPolicy.NONE)], BREADTH)) == ["a"]


def test_reasons_speak_of_the_fleet_as_it_was_when_the_request_came() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a", 8)),))
    whole = vm("passthrough")
    first, _, second = place(fleet, [whole, vm("T4-8Q"), whole], BREADTH)
    assert isinstance(first, NotPlaced)
    assert isinstance(second, NotPlaced)
    assert first.reasons[0].facts["taken"] == 8
    assert second.reasons[0].facts["taken"] == 16


def test_hugepages_are_used_up_node_by_node() -> None:
    nodes = tuple(
        NumaSupply(id=n, free_cpus=(), free_memory_mib=0, free_hugepages={2048: 512})
        for n in (0, 1)
    )
    fleet = Fleet(hosts=(replace(host("h1", memory_mib=0), numa=nodes),))
    request = vm(hugepage_kib=2048, numa=NumaPolicy.REQUIRE)
    first, second, third = place(fleet, copies(3, request), BREADTH)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert isinstance(third, NotPlaced)


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        (vm("T4-4Q"), 7),
        (vm("T4-2Q"), 8),
        (vm("passthrough"), 1),
        (vm("T4-4Q", "T4-4Q"), 3),
        (vm("T4-4Q", "T4-2Q"), 3),
        (vm("A40-8Q"), 0),
        (vm("T4-4Q", vcpus=20), 3),
        (vm(memory_mib=20000), 3),
        (vm("T4-4Q", labels={"a": "b"}, affinity=Affinity(apart_from={"a": "b"})), 1),
    ],
)
def test_headroom_counts_what_still_fits(request_: VmSpec, count: int) -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a", 4), gpu("b")),))
    assert headroom(fleet, request_) == count
    decisions = place(fleet, copies(count + 1, request_), BREADTH)
    assert [isinstance(d, Placed) for d in decisions] == [True] * count + [False]


@pytest.mark.parametrize(("limit", "count"), [(9, 3), (3, 3), (2, 2), (0, 0)])
def test_headroom_where_copies_have_to_be_tried_one_by_one(limit: int, count: int) -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a", 4), gpu("b")),))
    mixed = vm("T4-4Q", "T4-2Q")
    assert headroom(fleet, mixed, limit, policy=LEAST) == count


def test_headroom_of_a_group_is_that_of_the_host_where_it_starts() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a", 4)), host("h2", gpu("b"))))
    member = vm("T4-4Q", labels={"a": "b"}, affinity=Affinity(together_with={"a": "b"}))
    assert headroom(fleet, member) == 4
    assert headroom(fleet, member, policy=DEPTH) == 3


def test_headroom_stops_at_the_limit() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a")),))
    assert headroom(fleet, vm("T4-1Q"), limit=5) == 5
    assert headroom(fleet, vm("T4-1Q", "T4-2Q"), limit=0) == 0
