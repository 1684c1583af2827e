"""The replay of a rack: its trace is drawn from the points, and the controller holds the curve."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.power.demand import Together, demand, power_points
from benchmarks.power.replay import replay

BUDGET_W = 12_800.0


def test_the_trace_has_the_distribution_of_its_points() -> None:
    points = power_points()
    drawn = demand(points, 200, 6 * 3600, Together.INDEPENDENT, 42)
    for share, watts in ((0.5, 101), (0.9, 404), (0.99, 440)):
        assert np.quantile(drawn, share) == pytest.approx(watts, rel=0.1)


def test_half_of_the_gpus_and_whole_hosts_work_together() -> None:
    points = power_points()
    half = demand(points, 8, 3600, Together.HALF, 1)
    hosts = demand(points, 16, 3600, Together.HOSTS, 1)
    assert (half[:, 1] == half[:, 3]).all() and not (half[:, 0] == half[:, 2]).all()
    assert (hosts[:, 0] == hosts[:, 7]).all() and not (hosts[:, 0] == hosts[:, 8]).all()


@pytest.mark.thorough
def test_the_controller_holds_the_curve_where_no_capping_does_not() -> None:
    points = power_points()
    wanted = demand(points, 51, 6 * 3600, Together.HALF, 42)
    bare = replay(points, wanted, BUDGET_W, period_s=None)
    held = replay(points, wanted, BUDGET_W, period_s=15)
    assert bare.breaker_s > 0
    assert held.breaker_s == 0
    assert held.clock_loss["reserved"] <= 0.02 and held.clock_loss["on_demand"] == 0
