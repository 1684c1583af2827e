"""What is expected: the declared mix, else what was asked for; and that placement goes by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fakes import FakeHost
from tests.world import World, vm
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.operations import expected_requests
from vgpumgr.engine.operations.expected_requests import HISTORY_S, ExpectedRequests, asked
from vgpumgr.model.history import RequestOutcome, RequestRecord
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan import plan_maker
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, FakeHost("h1"))
    world.engine.refresh()
    yield world
    world.close()


def request(
    name: str, profile: str, answer: RequestOutcome = RequestOutcome.REFUSED, at: float = 1e9
) -> RequestRecord:
    return RequestRecord(vm=name, at=at, answer=answer, spec=vm(name, profile))


def fleet(world: World) -> Fleet:
    return build_fleet(world.engine.view())


def test_a_request_counts_once_however_often_it_was_tried() -> None:
    newest_first = [
        request("b", "T4-2Q"),
        request("a", "T4-4Q", RequestOutcome.PLACED),
        request("b", "T4-2Q"),
        request("a", "T4-4Q"),
        request("a", "T4-1Q", RequestOutcome.PLACED),
    ]
    assert [spec.gpus[0].profile for spec in asked(newest_first)] == ["T4-1Q", "T4-4Q", "T4-2Q"]


def test_without_history_nothing_is_known(world: World) -> None:
    assert ExpectedRequests().mix(world.ledger, world.clock.now(), fleet(world)) is None


def test_the_mix_is_of_the_last_thirty_days_and_of_what_some_gpu_makes(world: World) -> None:
    now = world.clock.now()
    old = [request(f"old-{n}", "T4-1Q", at=now - HISTORY_S - 1) for n in range(50)]
    new = [request(f"new-{n}", "T4-4Q", at=now - 60) for n in range(12)]
    impossible = [request(f"not-{n}", "A100-40C", at=now - 60) for n in range(50)]
    world.ledger.refuse([*old, *new, *impossible])
    mix = ExpectedRequests().mix(world.ledger, now, fleet(world))
    assert mix is not None
    assert [(spec.gpus[0].profile, weight) for spec, weight in mix.requests] == [("T4-4Q", 12.0)]


def test_requests_are_read_anew_after_a_minute(world: World) -> None:
    expected, now = ExpectedRequests(), world.clock.now()
    assert expected.mix(world.ledger, now, fleet(world)) is None
    world.ledger.refuse([request(f"new-{n}", "T4-4Q", at=now) for n in range(12)])
    assert expected.mix(world.ledger, now + 59, fleet(world)) is None
    assert expected.mix(world.ledger, now + 61, fleet(world)) is not None


def test_the_declared_mix_wins(world: World) -> None:
    now = world.clock.now()
    world.ledger.refuse([request(f"new-{n}", "T4-4Q", at=now - 60) for n in range(12)])
    declared = ((vm("mix", "T4-2Q"), 3.0), (vm("mix", "A100-40C"), 1.0))
    mix = ExpectedRequests(lambda: declared).mix(world.ledger, now, fleet(world))
    assert mix is not None
    assert [(spec.gpus[0].profile, weight) for spec, weight in mix.requests] == [("T4-2Q", 3.0)]


PLAN = CapacityPlan({}, {}, np.zeros((0, 0)), (), 1.0)


@pytest.mark.parametrize(
    ("found", "times"),
    [
        (PLAN, [0.0, 3601.0]),
        (NoPlan.UNSOLVED, [0.0, 61.0, 3599.0]),
    ],
)
def test_a_plan_serves_for_an_hour_and_a_missing_one_is_made_soon(
    world: World, monkeypatch: pytest.MonkeyPatch, found: CapacityPlan | NoPlan, times: list[float]
) -> None:
    made: list[float] = []
    now = 0.0

    def make_plan(_fleet: Fleet, _history: list[VmSpec]) -> CapacityPlan | NoPlan:
        made.append(now)
        return found

    monkeypatch.setattr(expected_requests, "make_plan", make_plan)
    expected = ExpectedRequests(lambda: ((vm("mix", "T4-2Q"), 1.0),))
    for now in (0.0, 59.0, 61.0, 3599.0, 3601.0):
        expected.outlook(world.ledger, now, fleet(world))
    assert made == times


def test_that_a_plan_is_missing_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mix = ExpectedRequests(lambda: ((vm("mix", "T4-2Q"), 1.0),))
    world.engine = replace(world.engine, expected=mix, policy=PlacementPolicy.CAPACITY_FIRST)
    assert world.engine.plan([vm("web", "T4-2Q")]).notes == ()
    monkeypatch.setattr(plan_maker, "MOST_ARCS", 1)
    mix = ExpectedRequests(lambda: ((vm("mix", "T4-2Q"), 1.0),))
    world.engine = replace(world.engine, expected=mix)
    [said] = world.engine.plan([vm("web", "T4-2Q")]).notes
    assert "without a plan" in said and "too large" in said
