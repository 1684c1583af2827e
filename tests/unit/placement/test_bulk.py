"""Bulk orders: every type evenly over the whole order."""

from __future__ import annotations

from benchmarks.placement.bulk_order import place_bulk
from tests.unit.placement.test_place import copies, gpu, host, vm, where
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Placer
from vgpumgr.placement.placer import evenly


def test_each_type_is_spread_from_end_to_end() -> None:
    requests = [*copies(2, vm("T4-8Q")), *copies(4, vm("T4-2Q"))]
    order = [requests[index].gpus[0].profile for index in evenly(requests)]
    assert order == ["T4-2Q", "T4-8Q", "T4-2Q", "T4-2Q", "T4-8Q", "T4-2Q"]


def test_requests_of_a_type_stay_as_given_and_whole_gpus_go_first() -> None:
    requests = [vm("T4-8Q"), vm("passthrough", "passthrough"), vm("passthrough")]
    assert evenly(requests) == [1, 2, 0]
    assert evenly([]) == []
    same = copies(5, vm("T4-2Q"))
    assert evenly(same) == [0, 1, 2, 3, 4]


def test_decisions_come_as_the_requests_go() -> None:
    fleet = Fleet(hosts=(host("h", gpu("a"), gpu("b")),))
    requests = [*copies(2, vm("T4-16Q")), vm("T4-2Q")]
    decisions = place_bulk(Placer(fleet, PlacementPolicy.CAPACITY_FIRST), requests)
    assert [decision.request for decision in decisions] == requests
    assert where(decisions).count("-") == 1
