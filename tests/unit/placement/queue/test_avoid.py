"""Hosts that a decision leaves out."""

from __future__ import annotations

import pytest

from tests.unit.placement.queue.scenes import fleet_of
from tests.unit.placement.test_place import vm
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Placer


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_what_is_avoided_is_left_out_this_time_alone(policy: PlacementPolicy) -> None:
    placer, request = Placer(fleet_of(3), policy), vm("T4-4Q")
    first = placer.decide(request)
    assert isinstance(first, Placed)
    second = placer.decide(request, avoid=[first.host])
    assert isinstance(second, Placed)
    assert second.host != first.host
    assert isinstance(placer.decide(request, avoid=["h1", "h2", "h3"]), NotPlaced)
    assert placer.decide(request) == first
