"""Hosts rated one by one, and all of them at once for each type: the same numbers, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_placement_churn import Scene, scenes, turns
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.scores.fragmentation_plane import FragmentationPlane, TypeRater
from vgpumgr.placement.scores.score_plane import one_by_one

LEAST = PlacementPolicy.LEAST_FRAGMENTATION


@settings(max_examples=200, deadline=None)
@given(scenes, turns, st.booleans())
def test_a_type_scores_alike_whichever_way_it_is_rated(
    scene: Scene, order: list[tuple[int, bool]], values: bool
) -> None:
    fleet, batch = scene
    batch = [replace(request, policy=None) for request in batch]
    placer = Placer(fleet, LEAST, mix=Mix.of(batch), values=values)
    for turn, (which, _) in enumerate(order):
        decision = placer.decide(replace(batch[which % len(batch)], name=f"vm-{turn}"))
        if isinstance(decision, Placed):
            placer.commit(decision)
    plane = placer._matrix._planes[LEAST]
    assert isinstance(plane, FragmentationPlane)
    rater = plane.rater(plane.request_types)
    every = np.arange(len(fleet.hosts))
    by_type: TypeRater = rater._by_type
    numbers = np.flatnonzero(by_type.can_rate)
    at_once = by_type.rate(numbers.tolist(), every)
    host_by_host = one_by_one(rater, len(plane.request_types.demands), every)
    np.testing.assert_array_equal(at_once, host_by_host[numbers])
