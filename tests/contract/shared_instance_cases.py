"""Several vGPUs in one GPU instance: MIG time-slicing of Blackwell's +gfx profiles (§6)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contract.bench import INSUFFICIENT_RESOURCES, INVALID_OPERATION, NOT_SUPPORTED, Cases
from tests.contract.mig_backed_bench import MigBackedBench

MOST_PER_INSTANCE, MOST_PER_GPU = 12, 48


@dataclass(frozen=True, kw_only=True)
class SharedInstanceBench(MigBackedBench):
    """Types that share a small instance.

    Two of ``half`` fill it; ``half_sibling`` is of that size and another series, ``part`` of a
    smaller size. ``smallest`` fits ``MOST_PER_INSTANCE`` times. ``bare`` is a small profile
    without graphics.
    """

    half: int
    half_sibling: int
    part: int
    smallest: int
    bare: str


CASES = Cases[SharedInstanceBench]()


@CASES.case("6.7")
def an_instance_is_shared_by_vgpus_of_one_size(bench: SharedInstanceBench) -> None:
    with bench.cut((bench.small, bench.small_starts[0])) as carriers:
        (there,) = bench.instances()
        vgpus = [carriers.make(bench.half), carriers.make(bench.half_sibling)]
        assert {bench.told(each, "gpu_instance_id") for each in vgpus} == {there.id}
        with bench.logged(INSUFFICIENT_RESOURCES):
            carriers.make(bench.half)


@CASES.case("6.7")
def another_size_is_refused_beside_free_space(bench: SharedInstanceBench) -> None:
    """Captured on R580; from R575 on, while the instance's own mixed-size mode is off."""
    with bench.cut((bench.small, bench.small_starts[0])) as carriers:
        carriers.make(bench.half)
        offered = bench.listed(carriers.vfs[1])
        assert {bench.half, bench.half_sibling} <= offered
        assert bench.part not in offered
        with bench.logged(NOT_SUPPORTED):
            carriers.make(bench.part)


@CASES.case("6.7")
def instances_of_one_card_may_hold_different_sizes(bench: SharedInstanceBench) -> None:
    places = [(bench.small, start) for start in bench.small_starts[:2]]
    with bench.cut(*places) as carriers:
        vgpus = [carriers.make(each) for each in (bench.half, bench.part, bench.half)]
        inside = [bench.told(each, "gpu_instance_id") for each in vgpus]
        assert inside[0] == inside[2] != inside[1]


@CASES.case("5.13")
def a_place_counts_inside_the_instance(bench: SharedInstanceBench) -> None:
    with bench.cut((bench.small, bench.small_starts[-1])) as carriers:
        one, two = carriers.make(bench.half), carriers.make(bench.half)
        assert bench.told(one, "placement_id") == 0 < bench.told(two, "placement_id")


@CASES.case("6.6")
def an_instance_holds_12_and_a_gpu_48(bench: SharedInstanceBench) -> None:
    with bench.cut(*((bench.small, start) for start in bench.small_starts)) as carriers:
        vgpus = [carriers.make(bench.smallest) for _ in range(MOST_PER_GPU)]
        inside = [bench.told(each, "gpu_instance_id") for each in vgpus]
        for there in bench.instances():
            assert inside.count(there.id) == MOST_PER_INSTANCE
        assert inside == sorted(inside)


@CASES.case("6.6")
def an_instance_takes_no_thirteenth(bench: SharedInstanceBench) -> None:
    with bench.cut((bench.small, bench.small_starts[0])) as carriers:
        for _ in range(MOST_PER_INSTANCE):
            carriers.make(bench.smallest)
        with bench.logged(INSUFFICIENT_RESOURCES):
            carriers.make(bench.smallest)


@CASES.case("8.19")
def an_instance_without_graphics_carries_no_vgpu(bench: SharedInstanceBench) -> None:
    with bench.cut((bench.bare, bench.small_starts[0])) as carriers:
        assert bench.listed(carriers.vfs[0]) == set()
        for type_id in (bench.small_type, bench.half, bench.large_type):
            with bench.logged(INVALID_OPERATION):
                carriers.make(type_id)
