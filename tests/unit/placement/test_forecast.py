"""How long room lasts, where that can be worked out by hand."""

from __future__ import annotations

import pytest

from vgpumgr.placement.headroom import ENOUGH_DAYS, Futures, Lasting


def test_steady_growth_ends_when_it_has_eaten_the_room() -> None:
    futures = Futures([0.5] * 20)
    assert futures.lasting(10.0) == Lasting(per_day=0.5, days_50=21, days_90=20)
    assert futures.lasting(0.0) == Lasting(per_day=0.5, days_50=1, days_90=0)
    assert futures.lasting(-0.25) == Lasting(per_day=0.5, days_50=0, days_90=0)


@pytest.mark.parametrize("change", [0.0, -1.0])
def test_what_does_not_grow_lasts(change: float) -> None:
    assert Futures([change] * 20).lasting(3.0) == Lasting(
        per_day=change, days_50=None, days_90=None
    )


def test_the_less_even_the_past_the_wider_what_may_come() -> None:
    even = Futures([1.0] * 28).lasting(30.0)
    bursts = Futures(([0.0] * 13 + [14.0]) * 2).lasting(30.0)
    assert bursts.per_day == even.per_day == 1.0
    assert even.days_90 == 30
    assert bursts.days_90 is not None
    assert bursts.days_50 is not None
    assert bursts.days_90 < even.days_90
    assert bursts.days_50 - bursts.days_90 > 7


def test_the_same_past_gives_the_same_answer() -> None:
    past = [float(day % 5) - 1 for day in range(40)]
    assert Futures(past).lasting(12.0) == Futures(past).lasting(12.0)


def test_too_few_days_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        Futures([1.0] * (ENOUGH_DAYS - 1))
