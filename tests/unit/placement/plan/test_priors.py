"""What a plan expects of models that few requests name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.placement.plan.test_plan import free_size, of_model
from tests.unit.placement.test_place import copies, host, vm
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan.priors import FEW, SURE, with_priors
from vgpumgr.placement.capacity_plan.quota_plan import group_key, groups_of
from vgpumgr.placement.resources.demand import demand_of

FLEET = Fleet(
    hosts=tuple(host(model, free_size(model, model=model)) for model in ("T4", "L4", "A10"))
)
COMMON = [*copies(300, vm("T4-4Q")), *copies(100, vm("T4-8Q"))]


def expected(history: list[VmSpec]) -> dict[object, float]:
    """How many of each group, by the group."""
    return {group.key: group.count for group in with_priors(groups_of(history), FLEET)}


def count(found: dict[object, float], request: VmSpec) -> float:
    demand = demand_of(request, PlacementPolicy.CAPACITY_FIRST, founding=False)
    return found.get(group_key(demand), 0.0)


def test_where_no_request_names_a_model_nothing_is_added() -> None:
    assert expected(COMMON) == {group.key: group.count for group in groups_of(COMMON)}


def test_a_model_that_few_name_is_expected_in_sizes_that_the_history_does_not_have() -> None:
    found = expected([*COMMON, *copies(3, of_model("T4-4Q", "L4")), of_model("T4-2Q", "L4")])
    seen, unseen = of_model("T4-4Q", "L4"), of_model("T4-8Q", "L4")
    assert count(found, unseen) > 0
    named = sum(count(found, of_model(size, "L4")) for size in ("T4-2Q", "T4-4Q", "T4-8Q"))
    assert named == pytest.approx(4 + SURE * 2)
    assert count(found, seen) > 3
    assert count(found, vm("T4-4Q")) == 300


def test_a_model_that_many_name_is_expected_as_it_came() -> None:
    many = int(FEW * 500) + 10
    found = expected([*COMMON, *copies(many, of_model("T4-4Q", "L4"))])
    assert count(found, of_model("T4-4Q", "L4")) == many
    assert count(found, of_model("T4-8Q", "L4")) == 0


def test_a_model_of_the_fleet_that_nobody_named_has_a_share_of_what_was_named_once() -> None:
    once = expected([*COMMON, of_model("T4-4Q", "L4")])
    twice = expected([*COMMON, *copies(2, of_model("T4-4Q", "L4"))])
    assert count(once, of_model("T4-4Q", "A10")) > 0
    assert count(twice, of_model("T4-4Q", "A10")) == 0


def test_models_are_compared_without_case() -> None:
    loud = replace(
        vm(), gpus=tuple(replace(g, models=("l4",)) for g in of_model("T4-4Q", "L4").gpus)
    )
    found = expected([*COMMON, loud, of_model("T4-4Q", "L4")])
    assert count(found, loud) == count(found, of_model("T4-4Q", "L4")) > 2
