"""Learning: when a newer mix and a newer plan are due, and what they are made of."""

from __future__ import annotations

import pickle

import pytest

from benchmarks.placement.request_learner import RequestLearner
from tests.unit.placement.test_place import copies, gpu, host, vm
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan

LEAST = PlacementPolicy.CAPACITY_FIRST
FLEET = Fleet(hosts=tuple(host(f"h{n}", gpu(f"g{n}")) for n in range(4)))


class Pupil(Placer):
    """Notes what it is told to adopt."""

    def __init__(self) -> None:
        super().__init__(FLEET, LEAST)
        self.mixes: list[Mix] = []
        self.plans: list[CapacityPlan | None] = []

    def adopt_mix(self, mix: Mix) -> None:
        self.mixes.append(mix)
        super().adopt_mix(mix)

    def adopt_plan(self, plan: CapacityPlan | None, *, of_what_is_free: bool = False) -> None:
        self.plans.append(plan)
        super().adopt_plan(plan, of_what_is_free=of_what_is_free)

    def weights(self) -> list[float]:
        """How many requests each mix was made of."""
        return [sum(weight for _, weight in mix.requests) for mix in self.mixes]


def see(learning: RequestLearner, requests: list[VmSpec]) -> None:
    for request in requests:
        learning.see(request)


def test_a_newer_mix_is_adopted_whenever_twice_as_much_is_known() -> None:
    pupil = Pupil()
    learning = RequestLearner(pupil)
    see(learning, copies(9, vm("T4-2Q")))
    assert pupil.mixes == []
    see(learning, copies(100, vm("T4-2Q")))
    assert pupil.weights() == [10, 20, 40, 80]


def test_a_history_is_what_it_starts_from() -> None:
    pupil = Pupil()
    learning = RequestLearner(pupil, copies(30, vm("T4-2Q")))
    assert pupil.weights() == [30]
    see(learning, copies(29, vm("T4-4Q")))
    assert pupil.weights() == [30]
    learning.see(vm("T4-4Q"))
    assert pupil.weights() == [30, 60]
    assert {request.gpus[0].profile for request, _ in pupil.mixes[-1].requests} == {
        "T4-2Q", "T4-4Q",
    }  # fmt: skip


def test_a_plan_is_due_once_at_200_requests_and_then_whenever_they_double() -> None:
    learning, due = RequestLearner(Pupil()), []
    for count in range(1, 900):
        learning.see(vm("T4-2Q"))
        if learning.due():
            due.append(count)
    assert due == [200, 400, 800]


def test_the_oldest_are_forgotten_and_then_it_goes_by_what_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.placement.request_learner.REMEMBERED", 20)
    pupil = Pupil()
    learning = RequestLearner(pupil, copies(40, vm("T4-2Q")))
    see(learning, copies(60, vm("T4-4Q")))
    assert pupil.weights() == [20] * 4
    assert [request.gpus[0].profile for request, _ in pupil.mixes[-1].requests] == ["T4-4Q"]


def test_the_making_of_a_plan_can_be_sent_elsewhere() -> None:
    pytest.importorskip("highspy")
    pupil = Pupil()
    learning = RequestLearner(pupil, copies(300, vm("T4-4Q")))
    make = learning.due()
    assert make is not None
    plan = pickle.loads(pickle.dumps(make))()
    assert plan is not None
    assert plan.fits == pytest.approx(16)
    learning.adopt(plan)
    assert pupil.plans == [plan]


def test_catching_up_makes_what_is_due_and_no_plan_leaves_the_one_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pupil = Pupil()
    learning = RequestLearner(pupil, copies(199, vm("T4-4Q")))
    learning.catch_up()
    assert pupil.plans == []
    monkeypatch.setattr("benchmarks.placement.request_learner.make_plan", lambda *_: None)
    learning.see(vm("T4-4Q"))
    learning.catch_up()
    assert pupil.plans == []
