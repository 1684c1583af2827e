"""Room that is kept for who is next, and what may run beside it."""

from __future__ import annotations

from tests.unit.placement.queue.scenes import NOW, Scene, fleet_of, started, text, waits, whole, why
from vgpumgr.model.queue import RoomReservation


def busy(runtime: float | None = 500.0) -> Scene:
    """One host with two GPUs; one is taken from 800 to 1300."""
    scene = Scene(fleet_of(1, 2))
    scene.runs(whole("running", runtime_s=runtime), since=800.0)
    return scene


def test_room_is_kept_where_it_is_there_the_soonest_and_the_line_says_when() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("later", runtime_s=5000.0), since=NOW)
    scene.runs(whole("sooner", runtime_s=500.0), since=NOW)
    found = scene.turn(whole("next"))
    assert found.reservations == (
        RoomReservation(name="next", host="h2", by=NOW + 500.0, ends=("sooner",)),
    )
    assert text(found, "next") == (
        "no host has enough free capacity; capacity is reserved on h2, available in 9 "
        "min at the latest, when sooner has ended"
    )


def test_who_ends_in_time_may_use_the_room_meanwhile() -> None:
    found = busy().turn(whole("big", 2, priority=100), whole("small", runtime_s=300.0))
    assert started(found) == ["small"]


def test_who_does_not_end_in_time_may_not() -> None:
    for runtime in (301.0, None):
        found = busy().turn(whole("big", 2, priority=100), whole("small", runtime_s=runtime))
        assert started(found) == []
        assert why(found) == {"big": "room", "small": "held-for-others"}
        assert text(found, "small") == "it fits on h1, where capacity is reserved for big"


def test_beside_what_is_kept_there_may_be_room_for_others() -> None:
    scene = Scene(fleet_of(1, 3))
    scene.runs(whole("running", runtime_s=500.0), since=800.0)
    scene.runs(waits("tiny", "T4-1Q", runtime_s=9000.0), since=NOW)
    found = scene.turn(whole("big", 2, priority=100), waits("cpu"), waits("vgpu", "T4-1Q"))
    assert sorted(started(found)) == ["cpu", "vgpu"]


def test_nobody_knows_when_room_is_there_where_nobody_knows_how_long_it_runs() -> None:
    found = busy(runtime=None).turn(whole("big", 2))
    assert found.reservations[0].by is None
    assert text(found, "big") == (
        "no host has enough free capacity; capacity is reserved "
        "on h1, available when running has ended"
    )


def test_a_host_once_chosen_stays() -> None:
    scene = Scene(fleet_of(2))
    for name, runtime in (("a", 900.0), ("b", 500.0)):
        scene.runs(whole(name, runtime_s=runtime), since=NOW)
    before = RoomReservation(name="next", host="h1", by=NOW + 900.0, ends=("a",))
    found = scene.turn(whole("next"), reservations=(before,))
    assert found.reservations == (before,)
    assert [event.code for event in found.events] == []


def test_a_reservation_that_cannot_be_kept_is_made_anew() -> None:
    scene = Scene(fleet_of(2))
    scene.runs(whole("a", runtime_s=500.0), since=NOW)
    scene.runs(whole("b", runtime_s=900.0), since=NOW)
    wrong = RoomReservation(name="next", host="h2", by=NOW, ends=())
    found = scene.turn(
        whole("next"), reservations=(wrong, RoomReservation(name="x", host="y", by=0.0))
    )
    assert [(each.name, each.host) for each in found.reservations] == [("next", "h1")]


def test_a_higher_class_takes_the_reservation_over() -> None:
    scene = busy()
    before = scene.turn(whole("big", 2)).reservations
    found = scene.turn(whole("big", 2), whole("boss", 2, priority=100), reservations=before)
    assert [each.name for each in found.reservations] == ["boss"]


def test_room_is_kept_for_all_that_start_together() -> None:
    scene = Scene(fleet_of(2, 2))
    for n in range(4):
        scene.runs(whole(f"r{n}", runtime_s=100.0 * (n + 1)), since=NOW)
    found = scene.turn(*(whole(f"m{n}", together="run") for n in range(3)))
    assert sorted(each.name for each in found.reservations) == ["m0", "m1", "m2"]
    assert {each.host for each in found.reservations} == {"h1", "h2"}


def test_nothing_is_kept_for_what_fits_no_host_however_empty() -> None:
    scene = busy()
    found = scene.turn(whole("huge", 3, priority=100), whole("small"))
    assert started(found) == ["small"]
    assert found.reservations == ()
