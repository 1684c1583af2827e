"""Which time-sliced vGPUs a GPU takes (§6), whatever carries them."""

from __future__ import annotations

import re

import pytest

from tests.contract.bench import INSUFFICIENT_RESOURCES, NOT_SUPPORTED, Cases
from tests.contract.vgpus import VgpuBench
from vgpumgr.model.errors import HostRefused, InUse

MOST_TIME_SLICED, MOST_PER_VM = 32, 16

CASES = Cases[VgpuBench]()
# For types of one size on VFs under drivers up to R535.
ONE_TYPE_CASES = Cases[VgpuBench]()
# For GPUs with more VFs than time-sliced vGPUs, where ``small`` is a smallest type.
MANY_CASES = Cases[VgpuBench]()
# For GPUs up to Pascal, where ``small`` is a part of the GPU.
WHOLE_ONLY_CASES = Cases[VgpuBench]()


@CASES.case("3.5", "6.3")
def the_first_vgpu_fixes_the_size(bench: VgpuBench) -> None:
    for first, other in ((bench.small, bench.large), (bench.large, bench.small)):
        with bench.made(first), bench.logged(NOT_SUPPORTED):
            bench.carriers.make(other)


@CASES.case("6.3")
def types_of_one_size_mix(bench: VgpuBench) -> None:
    with bench.made(bench.small, bench.sibling, bench.small):
        pass


@ONE_TYPE_CASES.case("6.3")
def an_older_driver_takes_one_type_only(bench: VgpuBench) -> None:
    with bench.made(bench.small, bench.small), bench.logged(NOT_SUPPORTED):
        bench.carriers.make(bench.sibling)


@CASES.case("6.4")
def a_type_has_a_most(bench: VgpuBench) -> None:
    with bench.made(*[bench.large] * bench.most_large), bench.logged(INSUFFICIENT_RESOURCES):
        bench.carriers.make(bench.large)


@MANY_CASES.case("6.6")
def a_gpu_carries_32_time_sliced_vgpus(bench: VgpuBench) -> None:
    with bench.made(*[bench.small] * MOST_TIME_SLICED), bench.logged(INSUFFICIENT_RESOURCES):
        bench.carriers.make(bench.small)


@MANY_CASES.case("6.6")
def a_vm_has_at_most_16_vgpus(bench: VgpuBench) -> None:
    with bench.made(*[bench.small] * (MOST_PER_VM + 1)) as vgpus:
        devices = [each.hostdev for each in vgpus]
        with bench.running("sixteen", *devices[:MOST_PER_VM]):
            pass
        bench.refused_start("seventeen", *devices)


@CASES.case("6.11")
def the_vgpus_of_a_vm_are_of_one_series(bench: VgpuBench) -> None:
    with bench.made(bench.small, bench.small, bench.sibling) as (one, two, sibling):
        with bench.running("alike", one.hostdev, two.hostdev):
            pass
        bench.refused_start("mixed", one.hostdev, sibling.hostdev)


@WHOLE_ONLY_CASES.case("6.11")
def parts_of_an_older_gpu_do_not_share_a_vm(bench: VgpuBench) -> None:
    with bench.made(bench.small, bench.small) as (one, two):
        bench.refused_start("parts", one.hostdev, two.hostdev)


@CASES.case("6.10")
def a_gpu_that_carries_vgpus_is_not_given_whole(bench: VgpuBench) -> None:
    with bench.made(bench.small), pytest.raises((InUse, HostRefused)) as caught:
        bench.bind(bench.gpu, *bench.mates(bench.gpu))
    assert re.search("mediated devices|virtual functions", caught.value.message)
    assert bench.facts(bench.gpu).driver == "nvidia"
    assert bench.claims == ()
