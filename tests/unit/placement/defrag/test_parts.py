"""The parts of the planner, each against what it must be by hand or by force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.placement.mixed_fleet import a40
from vgpumgr.model.defrag import MoveMode, MoveRoute, Resident
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.defrag.clearings import Clearing
from vgpumgr.placement.defrag.fleet_without import one_by_one, without
from vgpumgr.placement.defrag.movable_fleet import MovableFleet
from vgpumgr.placement.defrag.move_search import fewest, lightest
from vgpumgr.placement.defrag.relocation import in_order

clearings = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=2),
    max_size=4,
)


def floor_of(*profiles: str) -> tuple[MovableFleet, list[Placed]]:
    """A host per name, with one GPU and a VM that fills it; "" for none."""
    hosts = tuple(
        HostSupply(
            name=f"h{n}", free_vcpus=8, free_memory_mib=8192, numa=(),
            gpus=(replace(a40(), id=f"g{n}"),),
        )
        for n in range(len(profiles))
    )  # fmt: skip
    placer, placed = Placer(Fleet(hosts=hosts), PlacementPolicy.BREADTH_FIRST), []
    for n, profile in enumerate(profiles):
        if profile:
            part = GpuRequest(profile=profile)
            request = VmSpec(
                name=f"vm-{n}", vcpus=1, memory_mib=64, gpus=(part,), numa=NumaPolicy.NONE
            )
            decision = placer.decide(request)
            assert isinstance(decision, Placed)
            placer.commit(decision)
            placed.append(decision)
    ways = {host.name: MoveRoute(how=MoveMode.LIVE) for host in hosts}
    residents = [Resident(placed=each, ways=ways, gpu_mib=1) for each in placed]
    return MovableFleet(Fleet(hosts=hosts), residents), placed


def test_who_wait_for_each_other_are_parted_by_a_hop() -> None:
    floor, (first, second) = floor_of("A40-48Q", "A40-48Q", "")
    swapped = {
        0: replace(second, request=first.request),
        1: replace(first, request=second.request),
    }
    moves = in_order(floor, swapped)
    assert moves is not None
    assert [(move.vm, move.target.host, move.hop) for move in moves] == [
        ("vm-0", "h2", True),
        ("vm-1", "h0", False),
        ("vm-0", "h1", False),
    ]
    assert floor.at == [first, second], "the floor is as before"


def test_without_a_place_aside_there_is_no_order() -> None:
    floor, (first, second) = floor_of("A40-48Q", "A40-48Q")
    swapped = {
        0: replace(second, request=first.request),
        1: replace(first, request=second.request),
    }
    assert in_order(floor, swapped) is None


def test_what_is_taken_back_leaves_no_trace() -> None:
    floor, (first, _) = floor_of("A40-8Q", "A40-24Q", "")
    before = [gpu.grid.free for gpu in floor.gpus], [host.free_vcpus for host in floor.hosts]
    mark = floor.mark()
    floor.lift(0)
    floor.put(replace(first, host="h2", assignments=(replace(first.assignments[0], gpu="g2"),)), 0)
    assert floor.at[0] != first
    floor.back_to(mark)
    assert floor.at[0] == first
    assert before == (
        [gpu.grid.free for gpu in floor.gpus],
        [host.free_vcpus for host in floor.hosts],
    )


@given(clearings, st.integers(1, 6), st.integers(0, 8))
def test_choices_are_the_best_of_all(
    drawn: list[list[tuple[int, int]]], gain: int, most: int
) -> None:
    sites = [
        [Clearing((n,), won, tuple(range(left))) for won, left in site]
        for n, site in enumerate(drawn)
    ]

    def weight(each: Clearing) -> float:
        return each.gain * 10 + each.gpus[0] + len(each.leaving)

    every = [
        [each for each in choice if each]
        for choice in product(*([None, *site] for site in sites))
        if sum(each.gain for each in choice if each) >= gain
    ]
    counts = [sum(len(each.leaving) for each in choice) for choice in every]
    assert fewest(sites, gain) == min(counts, default=None)
    allowed = [c for c, count in zip(every, counts, strict=True) if count <= most]
    chosen = lightest(sites, gain, most, weight)
    assert (chosen is None) == (not allowed)
    if chosen is not None:
        assert sum(each.gain for each in chosen) >= gain
        assert sum(len(each.leaving) for each in chosen) <= most
        best = min(sum(map(weight, choice)) for choice in allowed)
        assert sum(map(weight, chosen)) == pytest.approx(best)


def test_more_than_there_is_costs_no_memory() -> None:
    assert fewest([[Clearing((0,), 1, ())]], (1 << 53) - 1) is None


def test_a_shared_instance_is_made_by_whoever_comes_first() -> None:
    floor, placed = floor_of("A40-8Q")
    bare = Fleet(hosts=tuple(host.supply for host in floor.hosts))
    assert [*one_by_one(bare, placed)] == placed
    assert without(bare, []) == bare
