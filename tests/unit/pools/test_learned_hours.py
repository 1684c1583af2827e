"""Spares by the hours at which users came before: how many, up to what, and what that brings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from benchmarks.learned_hours import compared
from tests.poolsim import PoolSim, spec
from tests.poolworld import NOW, ask, desktop, pool, session, view
from tests.serving import Served
from vgpumgr.engine.desktops.learned_hours import WEEKS, expected_logins
from vgpumgr.engine.desktops.pool_decision import decide_pool
from vgpumgr.engine.pools import pool_cycle
from vgpumgr.engine.pools.pool_habits import PoolHabits
from vgpumgr.model.ledger import Ledger

BERLIN = "Europe/Berlin"
AHEAD_S = 900.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).timestamp()


def logins(*texts: str) -> list[float]:
    return sorted(map(at, texts))


def test_the_same_weekday_and_the_time_to_come_count() -> None:
    past = logins(
        "2026-03-16T08:30",  # Mondays
        "2026-03-16T08:44:59",
        "2026-03-16T08:45",  # too late
        "2026-03-16T08:29:59",  # too early
        "2026-03-17T08:31",  # a Tuesday
    )
    assert expected_logins(past, at("2026-03-23T08:30"), AHEAD_S, BERLIN) == 2
    assert expected_logins(past, at("2026-03-24T08:30"), AHEAD_S, BERLIN) == 1
    assert expected_logins(past, at("2026-03-25T08:30"), AHEAD_S, BERLIN) == 0


def test_the_busiest_of_four_weeks_counts_and_no_older_one() -> None:
    monday = datetime(2026, 2, 2, 8, 35, tzinfo=ZoneInfo(BERLIN))
    weeks = [(monday + timedelta(weeks=n)).timestamp() for n in (0, 0, 0, 1, 2, 2)]
    now = (monday + timedelta(weeks=WEEKS) - timedelta(minutes=5)).timestamp()
    assert expected_logins(weeks, now, AHEAD_S, BERLIN) == 3
    assert expected_logins(weeks, now + 7 * 86_400, AHEAD_S, BERLIN) == 2


def test_the_wall_clock_counts_when_summer_time_begins() -> None:
    """On 29 March 2026 clocks went forward."""
    past = logins("2026-03-23T08:30", "2026-03-23T08:40")
    assert expected_logins(past, at("2026-03-30T08:30"), AHEAD_S, BERLIN) == 2
    assert expected_logins(past, at("2026-03-30T09:30"), AHEAD_S, BERLIN) == 0


def test_no_time_ahead_and_no_past_expect_none() -> None:
    assert expected_logins([], NOW, AHEAD_S, BERLIN) == 0
    assert expected_logins([NOW - 7 * 86_400], NOW, 0.0, BERLIN) == 0


def made(expected: int, spare: int = 1, most: int = 10) -> int:
    used = [desktop(n, session=session(f"u{n}")) for n in range(3)]
    turn = decide_pool(view(pool(0, spare, most), *used, expected=expected))
    assert not turn.warnings
    return len(turn.actions)


def test_expected_users_have_desktops_ready_up_to_the_maximum() -> None:
    assert made(0) == 1
    assert made(4) == 4
    assert made(0, spare=5) == made(4, spare=5) == 5, "not on top of the spares"
    assert made(100) == 7, "bounded, and no warning that the pool is too small"


def test_who_waits_comes_before_who_may_come() -> None:
    crowd = view(pool(0, 0, 2), expected=5, asks=(ask("ada"), ask("bob")))
    assert len(decide_pool(crowd).actions) == 2


USERS = ("ada", "bob", "eve")


@pytest.fixture
def a_week_later(tmp_path: Path) -> Iterator[PoolSim]:
    """A pool to which three users came a week ago, ten minutes from now on."""
    sim = PoolSim(tmp_path, spec(spare=0, most=4, learned_hours=True), "h1")
    for user in USERS:
        assert sim.assign(user).waits
    for _ in range(2):
        sim.turn(1.0)
    for user in USERS:
        sim.engine.release_desktop("cad", user)
    for _ in range(3):
        sim.turn(3600.0)
    assert sim.vms() == [], "none is spare"
    sim.clock.wait(7 * 86_400.0 - 3 * 3600.0 - 600.0)
    yield sim
    sim.world.close()


def test_desktops_are_ready_before_the_hour_of_a_week_ago(a_week_later: PoolSim) -> None:
    sim, habits = a_week_later, PoolHabits()
    pool_cycle.step(sim.engine, expected=habits.expected(sim.engine))
    assert len(sim.vms()) == 3
    assert set(sim.states().values()) == {"ready"}
    sim.clock.wait(3600.0)
    for _ in range(2):
        pool_cycle.step(sim.engine, expected=habits.expected(sim.engine))
    assert sim.vms() == [], "the hour is over, and they were not used"


def test_what_is_expected_is_shown_and_made_by_serve(a_week_later: PoolSim) -> None:
    sim = a_week_later
    outlook = sim.engine.pool_outlook("cad")
    assert outlook.expected == 3
    assert outlook.turn.counts.wanted == 3
    Served(sim.engine).controller.once()
    assert len(sim.vms()) == 3


def test_it_is_off_by_default(a_week_later: PoolSim) -> None:
    sim = a_week_later
    sim.engine.put_pool(spec(spare=0, most=4))
    assert PoolHabits().expected(sim.engine) == {}
    assert sim.engine.pool_outlook("cad").expected is None
    assert sim.engine.pool_outlook("cad").turn.counts.wanted == 0


def test_what_was_read_is_kept_for_an_hour(a_week_later: PoolSim) -> None:
    sim, habits = a_week_later, PoolHabits()
    [id_] = [each.id for each in sim.ledger.pools()]
    assert habits.expected(sim.engine) == {id_: 3}
    sim.engine = replace(sim.engine, ledger=Unread(sim.ledger))  # type: ignore[arg-type]
    assert habits.expected(sim.engine) == {id_: 3}
    sim.clock.wait(3601.0)
    with pytest.raises(AssertionError, match="read"):
        habits.expected(sim.engine)


class Unread:
    """A ledger whose sessions nothing reads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        assert name != "pool_sessions", "read again"
        return getattr(self._ledger, name)


@pytest.mark.thorough
def test_a_fortnight_shows_the_gain() -> None:
    """A fifth of the waits, for a quarter more desktops that are ready for no user; as few waits
    by more spares alone cost twice as much and more.
    """
    found = compared(30, 7)
    fixed, many, learned = (found[each] for each in ("spare 2", "spare 10", "spare 2, learned"))
    assert fixed["logins"] == learned["logins"] == many["logins"]
    assert learned["waited"] * 5 <= fixed["waited"]
    assert learned["idle_desktop_hours"] <= 1.25 * fixed["idle_desktop_hours"]
    assert many["idle_desktop_hours"] > 2 * learned["idle_desktop_hours"]
