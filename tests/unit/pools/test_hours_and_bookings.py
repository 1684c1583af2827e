"""Schedules by the wall clock, names, bookings."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.poolworld import NOW, ask, desktop, pool, session, view
from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal, assign, decide_pool
from vgpumgr.engine.desktops.pool_size import conflict, serving_pool, size_at, withheld
from vgpumgr.model.desktop import Booking, DesktopVerb
from vgpumgr.model.pool import Naming, Size
from vgpumgr.model.pool_schedule import Schedule, overlap

BERLIN = "Europe/Berlin"
OFFICE = Schedule(days=(0, 1, 2, 3, 4), start=8 * 60 + 30, end=18 * 60, min=40, spare=8)
NIGHT = Schedule(days=(6,), start=22 * 60, end=6 * 60, min=3, spare=1)
BASE = pool(1, 1, 50, schedules=(OFFICE, NIGHT), zone=BERLIN, prewarm_s=0.0)


def at(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("moment", "least"),
    [
        ("2026-03-27T08:29", 1),
        ("2026-03-27T08:30", 40),  # the Friday before summer time
        ("2026-03-30T08:30", 40),  # the Monday after it
        ("2026-03-30T08:29", 1),
        ("2026-03-30T17:59", 40),
        ("2026-03-30T18:00", 1),
        ("2026-10-26T08:30", 40),  # the Monday after it ended
        ("2026-03-28T12:00", 1),
        ("2026-03-29T23:00", 3),
        ("2026-03-30T05:59", 3),  # Sunday's, past midnight
        ("2026-03-30T06:00", 1),
        ("2026-03-29T05:00", 1),  # not Saturday's
    ],
)
def test_a_schedule_holds_by_the_wall_clock(moment: str, least: int) -> None:
    assert size_at(BASE, at(moment)).min == least


def test_an_hour_that_comes_twice_is_held_twice() -> None:
    spec = replace(BASE, schedules=(replace(OFFICE, days=(6,), start=120, end=180),))
    both = [size_at(spec, at("2026-10-25T02:30", fold)).min for fold in (0, 1)]
    assert both == [40, 40]


def test_desktops_are_warm_before_the_hours_begin_and_stay_to_their_end() -> None:
    spec = replace(BASE, prewarm_s=900.0)
    assert size_at(spec, at("2026-03-30T08:15")) == Size(min=40, spare=8, max=50)
    assert size_at(spec, at("2026-03-30T08:14")).min == 1
    assert size_at(spec, at("2026-03-30T17:59")).min == 40


def test_schedules_overlap_past_midnight_and_past_the_week() -> None:
    early = replace(OFFICE, days=(0,), start=5 * 60, end=7 * 60)
    assert overlap(NIGHT, early) is not None
    assert overlap(OFFICE, NIGHT) is None
    assert overlap(OFFICE, OFFICE) is not None


@pytest.mark.parametrize("pattern", ["cad", "cad-{n", "{m}", "a{n}b{n}", "cad-{n:9}", "CAD{n}"])
def test_what_is_no_pattern_is_none(pattern: str) -> None:
    assert Naming.parse(pattern) is None


def test_a_pattern_gives_names_and_is_written_as_it_was_read() -> None:
    naming = Naming.parse("cad-{n:3}-x")
    assert naming is not None
    assert (naming.name(7), str(naming)) == ("cad-007-x", "cad-{n:3}-x")


def booking(count: int = 2, **changes: object) -> Booking:
    made = Booking(
        id="b1", group="class", profile="L40S-8Q", count=count, start=NOW, end=NOW + 3600
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_desktops_are_prewarmed_for_a_booking_and_kept_from_others() -> None:
    spec = pool(spare=0)
    soon = booking(start=NOW + 900)
    created = [each.do for each in decide_pool(view(spec, bookings=(soon,))).actions]
    assert created == [DesktopVerb.CREATE] * 2
    assert decide_pool(view(spec, bookings=(booking(start=NOW + 901),))).actions == ()
    seen = view(spec, desktop(1), desktop(2), bookings=(booking(),))
    other = assign(seen, ask("bob"))
    assert isinstance(other, AssignmentRefusal)
    assert other.code == "booked"
    member = assign(seen, ask("ann", "staff", "class"))
    assert not isinstance(member, AssignmentRefusal)
    assert member.booking == "b1"


def test_who_came_for_a_booking_uses_it_up() -> None:
    came = desktop(3, session=session("ann", booking="b1"))
    seen = view(pool(spare=0), desktop(1), desktop(2), came, bookings=(booking(),))
    assert not isinstance(assign(seen, ask("bob")), AssignmentRefusal)
    assert withheld(replace(seen, desktops=(came,))) == 1
    assert withheld(seen) == 0


def test_a_booking_is_served_by_the_first_pool_of_its_profile_that_entitles_its_group() -> None:
    spec = pool()
    entitled = replace(spec, entitlement=replace(spec.entitlement, groups=frozenset({"class"})))
    first = replace(entitled, name="a", priority=1)
    assert serving_pool(booking(), [spec, entitled, first]) == first
    assert serving_pool(booking(profile="T4-2Q"), [first]) is None


def test_bookings_that_do_not_fit_beside_each_other_are_refused_with_names() -> None:
    later = booking(3, id="b2", start=NOW + 1800, end=NOW + 5400)
    text = conflict(booking(2), [later], 4)
    assert text == "2 × L40S-8Q do not fit: 4 can run at a time, b2 has 3"
    assert conflict(booking(2), [later], 5) == ""
    assert conflict(booking(2), [replace(later, start=NOW + 3600)], 4) == ""


def test_hours_do_not_begin_on_a_holiday_and_last_until_their_end() -> None:
    """A night that began before the holiday goes on; prewarming looks at the day it is for."""
    night = Schedule(days=(0, 1, 2, 3, 4), start=1320, end=360, min=7, spare=2, except_on="at")
    spec = replace(BASE, schedules=(night,), prewarm_s=900.0)
    days = {"at": frozenset({"2026-03-25"})}
    assert size_at(spec, at("2026-03-25T05:59"), days).min == 7, "of the 24th"
    assert size_at(spec, at("2026-03-25T22:00"), days).min == 1
    assert size_at(spec, at("2026-03-26T05:00"), days).min == 1
    assert size_at(spec, at("2026-03-26T21:50"), days).min == 7
    assert size_at(spec, at("2026-03-25T22:00"), {"other": days["at"]}).min == 7
