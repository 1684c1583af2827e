"""The working day of pools, on a small fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.vdi.baseline import FirstCome
from benchmarks.vdi.ours import Controller
from benchmarks.vdi.run import Make, day
from benchmarks.vdi.scene import fleet, pools
from vgpumgr.model.pool import PoolSpec, Size
from vgpumgr.model.supply import Fleet

KEYS = {
    "users_without_desktop_while_startable",
    "used_desktops_taken",
    "wait_p50_s",
    "wait_p99_s",
    "gpu_utilisation",
    "bad_image_desktops",
}


def small(pool: PoolSpec) -> PoolSpec:
    """Twenty desktops; half of them to spare, as a host with ten of them will be lost."""
    early, rest = (replace(each, min=18 * (not n), spare=10) for n, each in
                   enumerate(pool.schedules))  # fmt: skip
    return replace(pool, size=Size(min=0, spare=2, max=30), schedules=(early, rest))


def figures(arm: Make, seed: int = 7) -> dict[str, Any]:
    whole = fleet()
    few = Fleet(hosts=(*whole.hosts[:3], *whole.hosts[-6:]))
    return day(arm, [small(pools()[0]), small(pools()[2])], seed, few)


@pytest.mark.parametrize("arm", [Controller, FirstCome])
def test_the_same_seed_gives_the_same_day(arm: Make) -> None:
    found = figures(arm)
    assert found == figures(arm)
    assert set(found) == KEYS
    assert found["used_desktops_taken"] == 0
    assert 0 < found["gpu_utilisation"] < 1


def test_hardly_anybody_waits_and_one_canary_stops_a_bad_image() -> None:
    ours, theirs = figures(Controller), figures(FirstCome)
    assert ours["bad_image_desktops"] == 1
    assert theirs["bad_image_desktops"] > 1
    assert ours["wait_p50_s"] == 0 < theirs["wait_p50_s"]
    late = "users_without_desktop_while_startable"
    assert ours[late] == 0 < theirs[late]
