"""The plan: what its program expects of fleets small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.property.boards import MIG, UNITS
from tests.unit.placement.test_place import gpu, host, vm
from vgpumgr.model.supply import Fleet, FreeVf, GpuSupply
from vgpumgr.model.vm import Affinity, GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan import plan_maker
from vgpumgr.placement.capacity_plan.host_pools import MOST_CLASSES, classes_of
from vgpumgr.placement.capacity_plan.plan_maker import FleetProgram, make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan, group_key, groups_of
from vgpumgr.placement.capacity_plan.state_transitions import StateWorth
from vgpumgr.placement.resources.demand import demand_of
from vgpumgr.placement.resources.host_state import FleetState
from vgpumgr.placement.tables.gpu_states import StateTable

pytest.importorskip("highspy")

LEAST = PlacementPolicy.CAPACITY_FIRST


def free_size(name: str, *held: int, model: str = "T4") -> GpuSupply:
    """A GPU of 16 GiB on which sizes mix freely."""
    return replace(gpu(name, *held), same_size=False, model=model)


def quota(plan: CapacityPlan, request: VmSpec) -> list[float]:
    """By class."""
    group = plan.groups[group_key(demand_of(request, LEAST, founding=False))]
    return [round(float(each), 2) for each in plan.quotas[:, group]]


def prices(plan: CapacityPlan) -> dict[str, int]:
    return {part.kind.profile: round(price) for part, price in plan.prices}


def of_model(profile: str, model: str) -> VmSpec:
    return replace(vm(), gpus=(GpuRequest(profile=profile, models=(model,)),))


def test_what_must_go_somewhere_keeps_its_place_there() -> None:
    """Half of the VMs want new GPUs, of which there are as many as old ones: the rest go to the
    old."""
    hosts = [host(f"old{n}", free_size(f"o{n}")) for n in range(4)]
    hosts += [host(f"new{n}", free_size(f"n{n}", model="L4")) for n in range(4)]
    picky, easy = of_model("T4-4Q", "L4"), vm("T4-4Q")
    plan = make_plan(Fleet(hosts=tuple(hosts)), [picky, easy] * 100, load=1.0)
    assert plan is not None
    assert [plan.classes["old0"], plan.classes["new3"]] == [0, 1]
    assert quota(plan, picky) == [0.0, 16.0]
    assert quota(plan, easy) == [16.0, 0.0]
    assert plan.fits == pytest.approx(32, abs=0.1)


def scarce() -> CapacityPlan:
    """Three of ten VMs want the one new GPU; when it is full the old ones have room for 32."""
    hosts = [host(f"old{n}", free_size(f"o{n}")) for n in range(8)]
    hosts.append(host("new", free_size("n", model="L4")))
    plan = make_plan(Fleet(hosts=tuple(hosts)), [PICKY] * 90 + [EASY] * 210, load=1.0)
    assert plan is not None
    return plan


PICKY, EASY = of_model("T4-4Q", "L4"), of_model("T4-4Q", "T4")


def test_a_scarce_model_does_not_keep_the_others_small() -> None:
    plan = scarce()
    assert quota(plan, PICKY) == [0.0, 4.0]
    assert quota(plan, EASY) == [32.0, 0.0]
    assert plan.fits == pytest.approx(36, abs=0.1)


def test_where_the_rest_is_not_solved_in_time_all_count_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = FleetProgram.build
    monkeypatch.setattr(FleetProgram, "build", lambda self: not self._held and build(self))
    assert quota(scarce(), EASY) == [9.33, 0.0]


def test_those_who_need_many_vcpus_go_where_they_are() -> None:
    few = [host(f"few{n}", free_size(f"f{n}"), vcpus=8) for n in range(3)]
    many = [host(f"many{n}", free_size(f"m{n}"), vcpus=32) for n in range(3)]
    hungry, modest = vm("T4-8Q", vcpus=16), vm("T4-8Q", vcpus=4)
    plan = make_plan(Fleet(hosts=(*few, *many)), [hungry, modest] * 100, load=1.0)
    assert plan is not None
    assert quota(plan, hungry) == [0.0, 6.0]
    assert quota(plan, modest) == [6.0, 0.0]


def test_vcpus_of_a_class_are_one_pool() -> None:
    """Six hosts of 16 vCPUs: eight VMs of 12, though their GPUs would take 24."""
    fleet = Fleet(hosts=tuple(host(f"h{n}", *_pair(n), vcpus=16) for n in range(6)))
    plan = make_plan(fleet, [vm("T4-8Q", vcpus=12)] * 200, load=1.0)
    assert plan is not None
    assert plan.fits == pytest.approx(8, abs=0.01)


def _pair(number: int) -> tuple[GpuSupply, GpuSupply]:
    return free_size(f"a{number}"), free_size(f"b{number}")


def test_prices_say_what_a_part_keeps_others_from() -> None:
    """Of 4 and 12 GiB in equal numbers, every GPU takes one of each: together they are a GPU."""
    fleet = Fleet(hosts=tuple(host(f"h{n}", free_size(f"g{n}")) for n in range(10)))
    twelve = replace(vm(), gpus=(GpuRequest(memory_mib=12 * 1024),))
    assert make_plan(fleet, [vm("T4-4Q"), twelve] * 100) is not NoPlan.NO_ROOM
    plan = make_plan(fleet, [vm("T4-8Q"), vm("T4-4Q"), vm("T4-4Q")] * 100)
    assert plan is not None
    assert prices(plan) == {"T4-8Q": 500, "T4-4Q": 250}


def test_a_gpu_is_worth_what_still_fits() -> None:
    fleet = Fleet(hosts=tuple(host(f"h{n}", free_size(f"g{n}")) for n in range(10)))
    plan = make_plan(fleet, [vm("T4-8Q"), vm("T4-4Q"), vm("T4-4Q")] * 100)
    assert plan is not None
    state = FleetState(Fleet(hosts=(host("h", *(free_size(f"g{n}", n) for n in (1, 4, 8, 13))),)))
    table = StateTable(state.boards)
    rows = np.array([table.row_of(each) for each in state.hosts[0].gpus])
    worth = StateWorth(plan.prices, table).of(rows)
    assert worth.round().tolist() == [750, 750, 500, 0]


def test_same_size_gpus_are_planned_for_by_size() -> None:
    """With the same-size rule a GPU takes two 8Q or four 4Q: never one of each."""
    fleet = Fleet(hosts=tuple(host(f"h{n}", gpu(f"g{n}")) for n in range(6)))
    plan = make_plan(fleet, [vm("T4-8Q"), vm("T4-4Q")] * 100, load=1.0)
    assert plan is not None
    assert quota(plan, vm("T4-8Q")) == [8.0]
    assert quota(plan, vm("T4-4Q")) == [8.0]


def test_mig_profiles_have_the_prices_of_the_places_they_take() -> None:
    """On a grid of eight slices with seven for computing: a 3g takes half of it."""
    slices = replace(
        free_size(""), model="A100", units=UNITS, gpu_slices=7, offers=MIG,
        free_vfs=tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(16)),
    )  # fmt: skip
    gpus = [replace(slices, id=f"g{n}", device=f"g{n}") for n in range(10)]
    fleet = Fleet(hosts=tuple(host(f"h{n}", each) for n, each in enumerate(gpus)))
    plan = make_plan(fleet, [vm("1g"), vm("1g.big"), vm("3g"), vm("7g")] * 60)
    assert plan is not None
    assert prices(plan) == {"1g": 125, "1g.big": 250, "3g": 500, "7g": 1000}


def test_what_is_taken_is_not_planned_with() -> None:
    blocked = replace(host("off", free_size("x")), blocked="cordoned")
    fleet = Fleet(hosts=(host("half", free_size("a", 8)), blocked))
    plan = make_plan(fleet, [vm("T4-4Q")] * 200, load=1.0)
    assert plan is not None
    assert plan.fits == pytest.approx(2, abs=0.01)
    assert sum(quota(plan, vm("T4-4Q"))) == pytest.approx(2, abs=0.01)


def test_vms_without_gpus_have_quotas_too() -> None:
    fleet = Fleet(hosts=(host("gpu", free_size("a"), vcpus=16), host("none", vcpus=64)))
    plan = make_plan(fleet, [vm("T4-16Q", vcpus=16), vm(vcpus=16)] * 100, load=1.0)
    assert plan is not None
    assert quota(plan, vm("T4-16Q", vcpus=16)) == [1.0, 0.0]
    assert quota(plan, vm(vcpus=16))[0] == pytest.approx(0.0, abs=0.01)


def test_the_same_input_gives_the_same_plan() -> None:
    fleet = Fleet(hosts=tuple(host(f"h{n}", free_size(f"g{n}")) for n in range(10)))
    history = [vm("T4-8Q"), vm("T4-4Q"), vm("T4-2Q")] * 70
    one, two = make_plan(fleet, history), make_plan(fleet, history)
    assert one is not None and two is not None
    assert one.quotas.tolist() == two.quotas.tolist()
    assert one.prices == two.prices


FLEET = Fleet(hosts=(host("h", free_size("a")),))


def test_there_is_no_plan_without_history_hosts_or_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_plan(FLEET, [vm("T4-4Q")] * (plan_maker.FEWEST - 1)) is NoPlan.TOO_FEW
    assert make_plan(Fleet(hosts=()), [vm("T4-4Q")] * 500) is NoPlan.NO_ROOM
    assert make_plan(FLEET, [vm("no-such")] * 500) is NoPlan.NO_ROOM
    monkeypatch.setattr(plan_maker, "solver_is_there", lambda: False)
    assert make_plan(FLEET, [vm("T4-4Q")] * 500) is NoPlan.NO_SOLVER


def test_a_program_that_costs_too_much_is_no_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = [vm("T4-4Q"), vm("T4-2Q")] * 100
    assert make_plan(FLEET, history, effort=0) is NoPlan.UNSOLVED
    monkeypatch.setattr(plan_maker, "MOST_ARCS", 3)
    assert make_plan(FLEET, history) is NoPlan.TOO_LARGE


def test_requests_for_named_hosts_are_not_steered() -> None:
    named = replace(vm("T4-4Q"), affinity=Affinity(hosts=("h",)))
    assert [group.count for group in groups_of([named, vm("T4-4Q")])] == [1]


def test_memory_alone_makes_no_group() -> None:
    small, large = vm("T4-4Q"), replace(vm("T4-4Q"), memory_mib=8192)
    (group,) = groups_of([small, large, large])
    assert group.count == 3
    assert group.memory_mib == pytest.approx((small.memory_mib + 2 * 8192) / 3)


def test_hosts_nearly_alike_are_one_class_where_there_would_be_too_many() -> None:
    few = [host(f"h{n}", free_size(f"g{n}"), memory_mib=65536 + n) for n in range(5)]
    many = [host(f"h{n}", free_size(f"g{n}"), memory_mib=65536 + n) for n in range(200)]
    assert len(set(classes_of(few))) == 5
    assert len(set(classes_of(many))) < MOST_CLASSES
