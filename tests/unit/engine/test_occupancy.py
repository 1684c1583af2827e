"""Slots held over time, compared with looking at every second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.engine.capacity.occupancy import occupancy
from vgpumgr.model.history import Holding

BEGIN, LONG, SPANS = 1000, 10, 6
END = BEGIN + LONG * SPANS
_SECOND = st.integers(BEGIN - 20, END + 20)


@st.composite
def holdings(draw: st.DrawFn) -> Holding:
    since = draw(_SECOND)
    until = draw(st.none() | st.integers(since, END + 30))
    units = draw(st.integers(1, 8))
    return Holding(
        gpu="g",
        profile="p",
        units=units,
        since=float(since),
        until=None if until is None else float(until),
    )


@given(st.lists(holdings(), max_size=8))
def test_it_is_what_is_held_each_second_on_average(held: list[Holding]) -> None:
    by_seconds = []
    for span in range(SPANS):
        seconds = range(BEGIN + span * LONG, BEGIN + (span + 1) * LONG)
        holds = [
            each.units
            for second in seconds
            for each in held
            if each.since <= second and (each.until is None or each.until > second)
        ]
        by_seconds.append(round(sum(holds) / LONG, 3))
    assert list(occupancy(held, BEGIN, END, SPANS)) == by_seconds
