"""What the places that stay free on a GPU in mixed-size mode are worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.placement.test_placer import LEAST, run
from tests.unit.placement.test_table import MIXED, WHOLE, gpu, placed, share, wants
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Usage
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.scores.fragmentation import Weighted
from vgpumgr.placement.scores.state_values import OpenStarts

SIZES = (2, 3, 5, 12)


def vm(units: int) -> VmSpec:
    part = GpuRequest(profile=f"share-{units}")
    return VmSpec(name=f"vm-{units}", vcpus=1, memory_mib=1, gpus=(part,), numa=NumaPolicy.NONE)


def mix_of(*units: int) -> list[Weighted]:
    return [Weighted(wants(GpuRequest(profile=f"share-{each}")), 1.0) for each in units]


def holding(units: int, at: int) -> GpuSupply:
    """The GPU with one vGPU on it."""
    taken = set(range(at, at + units))
    return replace(
        MIXED,
        free_slots=tuple(slot for slot in MIXED.free_slots if slot not in taken),
        usages=(Usage(profile=f"share-{units}", framework=placed(units, at).framework,
                      units=units, start=at),),
    )  # fmt: skip


def fleet(**gpus: GpuSupply) -> Fleet:
    return Fleet(
        hosts=tuple(
            HostSupply(name=f"host-{name}", free_vcpus=64, free_memory_mib=1 << 20, numa=(),
                       gpus=(replace(each, id=name),))
            for name, each in gpus.items()
        )
    )  # fmt: skip


def lost(starts: OpenStarts, supply: GpuSupply) -> float | None:
    return starts.lost(GpuOccupancy("h", supply, BoardBook()))


def test_a_start_counts_as_much_as_begins_there() -> None:
    """Of 12, twice 5, twice 3 and four times 2 a vGPU at 0 leaves 5, 3 and three times 2."""
    starts = OpenStarts(mix_of(*SIZES))
    every = 12 + 2 * 5 + 2 * 3 + 4 * 2
    assert lost(starts, MIXED) == 0
    assert lost(starts, holding(2, 0)) == pytest.approx(1000 * (12 + 5 + 3 + 2) / every)
    assert lost(starts, holding(12, 0)) == 1000


def test_only_what_somebody_asks_for_counts() -> None:
    some = OpenStarts(mix_of(2, 5))
    assert lost(some, holding(2, 0)) == pytest.approx(1000 * (5 + 2) / (2 * 5 + 4 * 2))
    assert lost(OpenStarts(mix_of(7)), MIXED) is None
    rare = [replace(each, weight=0.0) for each in mix_of(12)]
    assert lost(OpenStarts([*mix_of(2, 5), *rare]), holding(2, 0)) == lost(some, holding(2, 0))


@pytest.mark.parametrize(
    "other",
    [
        replace(MIXED, same_size=True),
        gpu(),
        gpu(offers=(placed(2, 0), share(3))),
        gpu(offers=(WHOLE,)),
    ],
    ids=["same size", "counted", "partly counted", "whole"],
)
def test_it_is_for_gpus_on_which_sizes_mix_at_starts(other: GpuSupply) -> None:
    assert lost(OpenStarts(mix_of(*SIZES)), other) is None


def test_a_gpu_that_is_cut_is_cut_on_before_an_empty_one() -> None:
    """Waste, which goes by shares, gives the rare large one's place away."""
    both = fleet(empty=MIXED, cut=holding(5, 0))
    mix = Mix(((vm(2), 0.5), (vm(5), 0.45), (vm(12), 0.05)))
    assert run(Placer(both, LEAST, mix=mix, values=False), vm(2)) == ["empty"]
    placer = Placer(both, LEAST, mix=mix)
    assert run(placer, vm(2), vm(12)) == ["cut", "empty"]
    placer = Placer(both, LEAST)
    assert run(placer, vm(2), vm(12)) == ["cut", "empty"], "and where nobody knows the mix"


def test_the_place_on_the_gpu_breaks_as_little() -> None:
    """At 4 it would break 5 at 0, at 6 5 at 7; at 10 and 0 also 3."""
    one = fleet(a=MIXED)
    placer = Placer(one, LEAST, mix=Mix(((vm(2), 0.5), (vm(5), 0.5), (vm(3), 0.1))))
    assert run(placer, vm(2), vm(5), vm(3), vm(3)) == ["a", "a", "a", "-"]
