"""Quotas: free up to the plan, dearer the further over it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.placement.test_place import vm
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.capacity_plan.quota_plan import (
    FREE,
    CapacityPlan,
    QuotaTally,
    group_key,
    penalty,
)
from vgpumgr.placement.resources.demand import demand_of

DEMAND = demand_of(vm("T4-4Q"), PlacementPolicy.CAPACITY_FIRST, founding=False)
OTHER = demand_of(vm("T4-8Q"), PlacementPolicy.CAPACITY_FIRST, founding=False)


def tally(*quotas: float) -> QuotaTally:
    """One class for each quota, with a host of the same number, and a host that is new."""
    hosts = [f"h{n}" for n in range(len(quotas))]
    plan = CapacityPlan(
        classes={name: n for n, name in enumerate(hosts)},
        groups={group_key(DEMAND): 0},
        quotas=np.array([[quota] for quota in quotas]),
        prices=(),
        fits=1.0,
    )
    return QuotaTally(plan, [*hosts, "new"])


def test_up_to_the_quota_is_free_and_twice_as_much_costs_a_gpu() -> None:
    used = np.array([0.0, 98.0, 99.0, 100.0, 200.0])
    costs = penalty(np.full(5, 99.0), used)
    assert costs.round(1).tolist() == [0.0, 0.0, 10.0, 20.0, 1020.0]


def test_quotas_below_one_are_no_walls() -> None:
    assert penalty(np.array(0.0), np.array(0.0)) == 1000.0
    assert penalty(np.array(0.5), np.array(0.0)) == pytest.approx(333.3, abs=0.1)


def test_a_cost_has_a_top() -> None:
    assert penalty(np.array(0.0), np.array(1e9)) == 50_000.0


def test_what_is_placed_counts_where_it_is_placed() -> None:
    count = tally(2.0, 5.0)
    group = count.group(group_key(DEMAND))
    assert count.by_class(group)[:2].tolist() == [0.0, 0.0]
    assert not count.count(group, 0)
    assert count.count(group, 0)
    assert count.by_class(group)[:2].round().tolist() == [333.0, 0.0]
    assert count.by_class(FREE)[:2].tolist() == [0.0, 0.0]
    assert count.count(group, 0, -1)
    assert count.by_class(group)[:2].tolist() == [0.0, 0.0]


def test_nothing_is_ever_less_than_unused() -> None:
    count = tally(1.0)
    group = count.group(group_key(DEMAND))
    count.count(group, 0, -1)
    assert count.count(group, 0)


def test_what_the_plan_does_not_know_costs_nothing() -> None:
    count = tally(0.0)
    assert count.group(group_key(OTHER)) == FREE
    assert count.by_class(FREE)[count.host_class].tolist() == [0.0, 0.0]
    assert not count.count(FREE, 0)
    group = count.group(group_key(DEMAND))
    assert not count.count(group, 1)
    assert count.by_class(group)[count.host_class].tolist() == [1000.0, 0.0]
