"""Stranded memory against the gauge: what the gauge calls useless is named, with its rule."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_placement_properties import fleets, host_fits, requests
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import Affinity, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import FITS, Mix, Placer
from vgpumgr.placement.fit_explanation import stranded

LEAST = PlacementPolicy.CAPACITY_FIRST


def plain(request: VmSpec) -> VmSpec:
    """Only what a mix counts: GPU parts, vCPUs, memory."""
    return replace(
        request, numa=NumaPolicy.NONE, pin_cpus=False, hugepage_kib=None, affinity=Affinity(),
        nics=(), disks=(), policy=None,
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(fleets(), st.lists(requests((1,)), min_size=1, max_size=3))
def test_what_is_stranded_is_what_the_gauge_says_and_what_brute_force_finds(
    fleet: Fleet, wanted: list[VmSpec]
) -> None:
    mix = Mix(tuple((plain(request), 1.0) for request in wanted))
    found = stranded(fleet, mix)
    gauge = Placer(fleet, LEAST, mix=mix).fragmentation()
    for said in gauge.hosts:
        host = next(host for host in fleet.hosts if host.name == said.host)
        here = [each for each in found if each.host == host.name]
        if not host.blocked:  # the gauge does not look at why a host is closed
            assert sum(each.free_mib for each in here) == round(said.unusable_mib)
    for each in found:
        host = next(host for host in fleet.hosts if host.name == each.host)
        alone = replace(host, gpus=tuple(gpu for gpu in host.gpus if gpu.id == each.gpu))
        assert not any(host_fits(fleet, alone, request) for request, _ in mix.requests)
        assert each.reason.code != FITS
        assert each.reason.text
