"""Who is stopped for whom, and what tenants have reserved."""

from __future__ import annotations

from tests.unit.placement.queue.scenes import NOW, Scene, fleet_of, started, text, waits, whole, why
from vgpumgr.model.quota import Quota

HIGH = 100


def preempted(scene: Scene, *waiting: object, **more: object) -> list[str]:
    found = scene.turn(*waiting, **more)  # type: ignore[arg-type]
    return [name for start in found.starts for name in start.preempts]


def test_the_least_work_is_lost() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("old", spot=True), since=0.0)
    scene.runs(whole("young", spot=True), since=900.0)
    found = scene.turn(whole("boss", priority=HIGH))
    assert [(start.waiting.vm.name, start.preempts) for start in found.starts] == [
        ("boss", ("young",))
    ]
    assert [event.code for event in found.events] == ["started", "preempted"]


def test_several_small_ones_may_cost_less_than_one_large_one() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("large", spot=True), since=0.0)
    for n in range(4):
        scene.runs(waits(f"small{n}", "T4-4Q", spot=True), since=990.0)
    assert preempted(scene, whole("boss", priority=HIGH)) == [f"small{n}" for n in range(4)]


def test_only_as_many_as_needed() -> None:
    scene = Scene(fleet_of())
    for n in range(4):
        scene.runs(waits(f"small{n}", "T4-4Q", spot=True), since=100.0 * n)
    assert preempted(scene, waits("boss", "T4-4Q", priority=HIGH)) == ["small3"]


def test_nobody_is_stopped_who_is_not_spot_or_not_of_lower_priority() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("firm", priority=-100))
    scene.runs(whole("equal", spot=True, priority=HIGH))
    found = scene.turn(whole("boss", priority=HIGH))
    assert started(found) == []
    assert why(found) == {"boss": "room"}


def test_nobody_is_stopped_for_some_of_those_that_start_together() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("spot", spot=True))
    scene.runs(whole("firm"))
    found = scene.turn(*(whole(f"m{n}", together="run", priority=HIGH) for n in "12"))
    assert started(found) == []
    assert scene.turn(whole("boss", priority=HIGH)).starts[0].preempts == ("spot",)


def test_reserved_parts_are_kept_from_all_but_spot_vms() -> None:
    quota = Quota(tenant="owner", reserved={"passthrough": 1})
    found = Scene(fleet_of()).turn(whole("other"), quotas=[quota])
    assert started(found) == []
    assert (
        text(found, "other")
        == "its capacity is reserved for tenant owner; only spot VMs may use it"
    )
    assert started(Scene(fleet_of()).turn(whole("other", spot=True), quotas=[quota])) == ["other"]
    assert started(Scene(fleet_of(2)).turn(whole("other"), quotas=[quota])) == ["other"]


def test_who_claims_what_it_reserved_stops_spot_vms_of_any_priority() -> None:
    quota = Quota(tenant="owner", reserved={"passthrough": 1})
    scene = Scene(fleet_of())
    scene.runs(whole("spot", spot=True, priority=HIGH), since=NOW)
    assert preempted(scene, whole("mine", tenant="owner"), quotas=[quota]) == ["spot"]


def test_what_is_beyond_the_reserved_parts_claims_nothing() -> None:
    quota = Quota(tenant="owner", reserved={"passthrough": 1})
    scene = Scene(fleet_of(2))
    scene.runs(whole("have", tenant="owner"))
    scene.runs(whole("spot", spot=True))
    assert preempted(scene, whole("more", tenant="owner"), quotas=[quota]) == []
