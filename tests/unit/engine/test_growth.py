"""Holdings of the past as daily changes, in GPUs."""

from __future__ import annotations

from tests.unit.placement.test_place import gpu, host
from vgpumgr.engine.capacity.profile_capacity import DAY_S, UsageGrowth
from vgpumgr.model.history import Holding
from vgpumgr.model.supply import Fleet

NOW = 1e9
FLEET = Fleet(hosts=(host("h", gpu("g1"), gpu("g2")),))


def held(days_ago: float, until: float | None = None, units: int = 4, on: str = "g1") -> Holding:
    end = None if until is None else NOW - until * DAY_S
    since = NOW - days_ago * DAY_S
    return Holding(gpu=on, profile="T4-4Q", units=units, since=since, until=end)


def test_too_little_history_is_said() -> None:
    growth = UsageGrowth(FLEET, [held(13.5)], NOW)
    assert growth.lasting("T4-4Q", 5) is None
    assert growth.days == 13
    assert UsageGrowth(FLEET, [], NOW).days == 0


def test_what_is_given_back_and_what_lies_on_other_gpus_is_no_growth() -> None:
    growth = UsageGrowth(FLEET, [held(20.5), held(10.5, until=10.2), held(3.5, on="gone")], NOW)
    found = growth.lasting("T4-4Q", 5)
    assert found is not None
    assert found.per_day == 0  # the first day, of which only a part is known, does not count


def test_a_quarter_of_a_gpu_a_day_fills_four_gpus_in_so_many_days() -> None:
    growth = UsageGrowth(FLEET, [held(day + 0.5) for day in range(21)], NOW)
    found = growth.lasting("T4-4Q", 10)
    assert found is not None
    assert (found.per_day, found.days_50) == (0.25, 10)
    other = growth.lasting("T4-2Q", 20)  # the same GPUs fill up for it too
    assert other is not None
    assert other.days_50 == 10
    assert growth.lasting("A40-8Q", 1) is None
