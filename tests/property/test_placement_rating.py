"""Hosts rated one by one, and all of them at once for each type: the same numbers, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_placement_churn import Scene, scenes, turns
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.scores.compiled import library, use
from vgpumgr.placement.scores.fragmentation_plane import FragmentationPlane
from vgpumgr.placement.scores.key_order_plane import KeyOrderPlane
from vgpumgr.placement.scores.score_plane import one_by_one
from vgpumgr.placement.tables.request_types import Ints


@settings(max_examples=200, deadline=None)
@given(scenes, st.sampled_from(PlacementPolicy), turns, st.booleans())
def test_a_type_scores_alike_whichever_way_it_is_rated(
    scene: Scene, policy: PlacementPolicy, order: list[tuple[int, bool]], values: bool
) -> None:
    fleet, batch = scene
    batch = [replace(request, policy=None) for request in batch]
    placer = Placer(fleet, policy, mix=Mix.of(batch), values=values)
    for turn, (which, _) in enumerate(order):
        decision = placer.decide(replace(batch[which % len(batch)], name=f"vm-{turn}"))
        if isinstance(decision, Placed):
            placer.commit(decision)
    plane = placer._matrix._planes[policy]
    every = np.arange(len(fleet.hosts))
    rater = plane.rater(plane.request_types)
    host_by_host = one_by_one(rater, len(plane.request_types.demands), every)
    numbers = np.flatnonzero(plane.request_types.on_many)
    np.testing.assert_array_equal(_at_once(plane, numbers, every), host_by_host[numbers])


def _at_once(plane: FragmentationPlane | KeyOrderPlane, types: Ints, hosts: Ints) -> object:
    rater = plane.rater(plane.request_types)
    if isinstance(plane, FragmentationPlane):
        return rater._by_type.rate(types.tolist(), hosts)
    plane.table.open_rows(np.unique(plane.hosts.rows[hosts]).tolist())
    return np.array([rater._of_type(each, hosts) for each in types.tolist()]).reshape(
        -1, len(hosts)
    )


@pytest.mark.skipif(library() is None, reason="host_rating.so was not built (no compiler?)")
@settings(max_examples=200, deadline=None)
@given(scenes, st.sampled_from(PlacementPolicy), turns, st.booleans())
def test_the_compiled_way_gives_the_numbers_of_the_other(
    scene: Scene, policy: PlacementPolicy, order: list[tuple[int, bool]], values: bool
) -> None:
    """Scores bit by bit as the plane keeps them, and so every answer."""
    fleet, batch = scene
    batch = [replace(request, policy=None) for request in batch]
    answers = []
    for compiled in (True, False):
        use(compiled)
        placer = Placer(fleet, policy, mix=Mix.of(batch), values=values)
        answers.append(_answers(placer, batch, order))
    use(True)
    (quick, decisions), (slow, same) = answers
    assert decisions == same
    np.testing.assert_array_equal(quick, slow)


def _answers(
    placer: Placer, batch: list[VmSpec], order: list[tuple[int, bool]]
) -> tuple[object, list[Decision]]:
    """All scores after all changes, host by host, and the decisions on the way."""
    decisions: list[Decision] = []
    for turn, (which, _) in enumerate(order):
        decision = placer.decide(replace(batch[which % len(batch)], name=f"vm-{turn}"))
        decisions.append(decision)
        if isinstance(decision, Placed):
            placer.commit(decision)
    (plane,) = placer._matrix._planes.values()
    for host in range(len(placer.fleet.hosts)):
        plane.update(host, labels_changed=False)
    return plane.scores[: len(plane.request_types.demands)], decisions
