"""Who starts and who waits, and the line that says why."""

from __future__ import annotations

from tests.unit.placement.queue.scenes import Scene, fleet_of, started, text, waits, whole, why
from vgpumgr.model.queue import QueueRules
from vgpumgr.model.quota import Amount, Quota

DAY = 86_400.0


def test_what_fits_starts_and_the_rest_waits_for_room() -> None:
    found = Scene(fleet_of()).turn(whole("a", since=1.0), whole("b", since=2.0))
    assert started(found) == ["a"]
    assert why(found) == {"b": "room"}
    assert found.waits[0].position == 1


def test_a_higher_class_goes_first() -> None:
    found = Scene(fleet_of()).turn(
        whole("early", since=1.0), whole("late", since=9.0, priority=100)
    )
    assert started(found) == ["late"]


def test_who_has_waited_a_day_longer_counts_as_a_class_higher() -> None:
    now = 2 * DAY
    old, new = whole("old", since=0.0), whole("new", since=now, priority=100)
    assert started(Scene(fleet_of()).turn(old, new, now=now)) == ["old"]
    assert started(Scene(fleet_of()).turn(old, new, now=DAY - 1)) == ["new"]


def test_who_is_overdue_goes_first_in_its_class_and_in_no_other() -> None:
    """However long it runs; who waited twice as long comes before, too."""
    now, overdue = 9 * 3600.0, QueueRules().overdue_s
    short = whole("short", since=now - overdue + 1, runtime_s=60.0)
    long = whole("long", since=now - overdue, runtime_s=90_000.0)
    longer = whole("longer", since=now - 2 * overdue, runtime_s=900_000.0)
    assert started(Scene(fleet_of()).turn(short, long, now=now)) == ["long"]
    assert started(Scene(fleet_of()).turn(short, long, longer, now=now)) == ["longer"]
    assert started(Scene(fleet_of()).turn(short, long, now=now - 1)) == ["short"]
    above = whole("above", since=now, priority=1)
    assert started(Scene(fleet_of()).turn(above, longer, now=now)) == ["above"]


def test_the_short_and_the_small_go_first_among_equals() -> None:
    found = Scene(fleet_of()).turn(
        whole("long", since=1.0, runtime_s=9000.0), whole("short", since=2.0, runtime_s=90.0)
    )
    assert started(found) == ["short"]
    found = Scene(fleet_of()).turn(whole("all", since=1.0), waits("part", "T4-8Q", since=2.0))
    assert started(found) == ["part"]


def test_the_order_in_which_requests_are_given_does_not_matter() -> None:
    line = [whole("a", since=3.0), whole("b", since=3.0), whole("c", since=1.0, runtime_s=60.0)]
    turns = [Scene(fleet_of(2)).turn(*each) for each in (line, line[::-1])]
    assert turns[0] == turns[1]


def test_nothing_starts_before_what_it_is_after_has_ended() -> None:
    scene = Scene(fleet_of(1, 4))
    scene.runs(whole("one"))
    found = scene.turn(waits("next", after=("one", "two", "gone")), whole("two"), ended=("other",))
    assert started(found) == ["two"]
    assert why(found) == {"next": "after"}
    line = text(found, "next")
    assert line == "after one (running), two (running), gone (not known to have ended)"


def test_it_starts_when_all_of_these_have_ended() -> None:
    found = Scene(fleet_of()).turn(waits("next", after=("one", "two")), ended=("one", "two"))
    assert started(found) == ["next"]


def test_vms_that_start_together_do_so_or_none_does() -> None:
    line = [whole(f"m{n}", together="run") for n in range(3)]
    found = Scene(fleet_of(1, 2)).turn(*line)
    assert started(found) == []
    assert set(why(found).values()) == {"together"}
    assert text(found, "m0") == (
        "2 of the 3 VMs of run could start; m2: no host has enough free capacity"
    )
    assert started(Scene(fleet_of(1, 3)).turn(*line)) == ["m0", "m1", "m2"]


def test_room_for_some_of_those_that_start_together_is_free_for_others() -> None:
    line = [whole(f"m{n}", together="run", since=-1.0) for n in range(3)]
    found = Scene(fleet_of(1, 2)).turn(*line, whole("alone"), whole("pair"))
    assert sorted(started(found)) == ["alone", "pair"]


def test_one_of_several_that_is_held_back_holds_back_all() -> None:
    line = [whole("a", together="run"), whole("b", together="run", after=("x",))]
    assert started(Scene(fleet_of(1, 2)).turn(*line)) == []


def test_groups_of_different_tenants_are_different_groups() -> None:
    line = [whole("a", together="run"), *(whole(f"b{n}", together="run", tenant="t") for n in "12")]
    assert started(Scene(fleet_of(1, 2)).turn(*line)) == ["a"]


def test_a_quota_keeps_room_empty() -> None:
    quota = Quota(tenant="default", gpus=1)
    found = Scene(fleet_of(1, 2)).turn(whole("a", since=1), whole("b", since=2), quotas=[quota])
    assert started(found) == ["a"]
    assert text(found, "b") == "tenant default: GPU parts: 1 of 1 used, 1 asked"


def test_what_others_hold_for_the_tenant_counts_too() -> None:
    quota, held = Quota(tenant="default", vcpus=5), {"default": Amount(vcpus=4, vms=2)}
    found = Scene(fleet_of()).turn(waits("a"), quotas=[quota], held=held)
    assert why(found) == {"a": "quota"}


def test_what_alone_is_beyond_the_quota_never_starts() -> None:
    found = Scene(fleet_of(1, 2)).turn(whole("big", 2), quotas=[Quota(tenant="default", gpus=1)])
    assert why(found) == {"big": "never"}
    assert [event.code for event in found.events] == ["never"]


def test_tenants_of_equal_priority_share_by_weight() -> None:
    line = [
        *(waits(f"a{n}", "T4-4Q", since=n, tenant="a") for n in range(4)),
        *(waits(f"b{n}", "T4-4Q", since=9 + n, tenant="b") for n in range(4)),
    ]
    assert started(Scene(fleet_of()).turn(*line)) == ["a0", "b0", "a1", "b1"]
    weighty = [Quota(tenant="a", weight=3.0)]
    assert sorted(started(Scene(fleet_of()).turn(*line, quotas=weighty))) == [
        "a0",
        "a1",
        "a2",
        "b0",
    ]


def test_long_work_does_not_fill_what_is_kept_for_short_work() -> None:
    rules = QueueRules(kept_for_short=0.25, short_s=600.0)
    line = [waits(f"long{n}", "T4-4Q", since=n, runtime_s=9000.0) for n in range(4)]
    found = Scene(fleet_of()).turn(*line, rules=rules)
    assert started(found) == ["long0", "long1", "long2"]
    assert text(found, "long3") == "25% of the fleet is reserved for VMs that run at most 10 min"
    found = Scene(fleet_of()).turn(*line, waits("short", "T4-4Q", runtime_s=60.0), rules=rules)
    assert "short" in started(found)
