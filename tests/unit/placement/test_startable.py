"""How many more could start: as headroom counts, and nothing is used up by asking."""

from __future__ import annotations

from tests.unit.placement.test_place import gpu, host
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement import Placer, headroom
from vgpumgr.placement.headroom import startable

DEPTH = PlacementPolicy.DEPTH_FIRST


def test_parts_that_compete_are_tried_and_given_back() -> None:
    names = [each.profile for each in gpu("g1").offers[:2]]
    parts = tuple(GpuRequest(profile=each) for each in names)
    request = VmSpec(name="a", vcpus=1, memory_mib=64, gpus=parts)
    fleet = Fleet(hosts=(host("h1", gpu("g1"), gpu("g2"), gpu("g3")),))
    placer = Placer(fleet, DEPTH)
    before = placer.decide(request)
    assert startable(placer, request, 1000) == headroom(fleet, request, policy=DEPTH) > 0
    assert placer.decide(request) == before


def test_it_counts_what_is_left_and_takes_nothing() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("g1"), gpu("g2")), host("h2", gpu("g3"))))
    profile = gpu("g1").offers[0].profile
    request = VmSpec(name="a", vcpus=1, memory_mib=64, gpus=(GpuRequest(profile=profile),))
    placer = Placer(fleet, DEPTH)
    most = headroom(fleet, request)
    assert most > 2
    assert startable(placer, request, 1000) == most
    assert startable(placer, request, 2) == 2
    placed = placer.decide(request)
    assert isinstance(placed, Placed)
    placer.commit(placed)
    assert startable(placer, request, 1000) == most - 1
    assert placer.decide(request) == placer.decide(request)
