"""The ladder of a hot GPU: one rung a round, down only after calm rounds, never by absence."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.power.power_bands import LEAST_MHZ, HeldTo
from vgpumgr.power.thermal_ladder import (
    COOL,
    HeatState,
    Rung,
    both,
    causes,
    climb,
    held_to,
    tighter,
)


def after(*celsius: int | None) -> HeatState:
    state = COOL
    for each in celsius:
        state = climb(state, each, 1400)
    return state


def test_the_first_reading_at_85_acts_and_each_further_one_goes_up_a_rung() -> None:
    assert [after(*[85] * n).rung for n in range(6)] == [
        Rung.NONE,
        Rung.CLOCKS,
        Rung.LIMIT,
        Rung.CORDON,
        Rung.DRAIN,
        Rung.DRAIN,
    ]
    assert after(84, 84, 84).rung is Rung.NONE


def test_it_comes_down_after_three_cool_rounds_and_stays_between() -> None:
    assert after(90, 90, 82, 82, 82, 82).rung is Rung.LIMIT
    assert after(90, 90, 79, 79).rung is Rung.LIMIT
    assert after(90, 90, 79, 79, 79).rung is Rung.CLOCKS
    assert after(90, 79, 79, 79) == COOL


def test_a_cordon_and_a_drain_end_with_the_limit_the_cordon_is_a_persons_to_lift() -> None:
    assert after(90, 90, 90, 90, 79, 79, 79).rung is Rung.LIMIT


def test_a_temperature_that_is_not_told_changes_nothing() -> None:
    assert after(90, None, None, None, None) == after(90)


def test_each_rung_has_what_those_below_it_have() -> None:
    assert held_to(COOL, 100) is None
    assert held_to(after(90), 100) == HeldTo(clock_mhz=840, why="temperature")
    assert held_to(after(90, 90), 100) == HeldTo(limit_w=100, clock_mhz=840, why="temperature")
    assert held_to(after(90, 90, 90, 90), 100) == held_to(after(90, 90), 100)


def test_a_gpu_that_tells_no_clock_is_limited_at_once() -> None:
    assert held_to(climb(COOL, 90, None), 100) == HeldTo(limit_w=100, why="temperature")


def test_of_two_caps_the_tighter_of_each_holds() -> None:
    one, other = HeldTo(limit_w=200, why="rack"), HeldTo(limit_w=150, clock_mhz=800, why="heat")
    assert tighter(one, other) == HeldTo(limit_w=150, clock_mhz=800, why="rack and heat")
    assert both({"a": one}, {"b": other}) == {"a": one, "b": other}
    assert both({"a": one}, {"a": other}) == {"a": tighter(one, other)}


@given(st.integers(LEAST_MHZ, 4000), st.sampled_from([None, 100]))
def test_a_controller_that_starts_holds_a_hot_gpu_as_it_was_held(
    clock: int, limit: int | None
) -> None:
    held = HeldTo(limit_w=limit, clock_mhz=clock, why="temperature")
    of_budgets, state = causes(held)
    assert of_budgets is None
    assert held_to(state, 100) == held


def test_a_cap_for_two_causes_is_one_of_each_again() -> None:
    held = HeldTo(limit_w=100, clock_mhz=840, why="rack and temperature")
    of_budgets, state = causes(held)
    assert of_budgets == replace(held, why="rack")
    assert tighter(of_budgets, held_to(state, 100)) == held
    assert causes(replace(held, why="temperature-room")) == (
        replace(held, why="temperature-room"),
        COOL,
    )


@given(st.lists(st.none() | st.integers(0, 120), max_size=40), st.none() | st.integers(0, 3000))
def test_whatever_is_read(readings: list[int | None], clock: int | None) -> None:
    states = [COOL]
    for celsius in readings:
        states.append(climb(states[-1], celsius, clock))
    for (before, now), celsius in zip(pairwise(states), readings, strict=True):
        hot = celsius is not None and celsius >= 85
        assert now.rung <= before.rung + 1
        assert (now.rung > before.rung) == (hot and before.rung < Rung.DRAIN)
        assert not (celsius is None and now != before)
        cap = held_to(now, 100)
        assert cap is None or cap.clock_mhz is None or cap.clock_mhz >= LEAST_MHZ
