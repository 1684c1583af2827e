"""The placer: least fragmentation by eye, mixes, quotas, the gauge, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.placement_checker import complaints
from tests.property.boards import MIG, UNITS
from tests.unit.placement.test_place import copies, gpu, host, vm, where
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.supply import Fleet, FreeVf, GpuSupply, NumaSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, Placer, place
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, group_key
from vgpumgr.placement.resources.demand import demand_of

LEAST = PlacementPolicy.CAPACITY_FIRST


def mixed_size(name: str, *held: int):  # type: ignore[no-untyped-def]
    """A GPU on which sizes mix freely."""
    return replace(gpu(name, *held), same_size=False)


def run(placer: Placer, *requests: VmSpec) -> list[str]:
    decisions = []
    for request in requests:
        decision = placer.decide(request)
        decisions.append(decision)
        if isinstance(decision, Placed):
            placer.commit(decision)
    return where(tuple(decisions))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="worst-fit"):
        Placer(Fleet(hosts=()), "worst-fit")  # type: ignore[arg-type]  # that is the point


def test_a_gap_is_filled_that_nothing_else_of_the_mix_can_use() -> None:
    """4 GiB are left on ``a``, 8 on ``b``: a mix of 8Q can only use ``b``."""
    fleet = Fleet(hosts=(host("h1", mixed_size("b", 8), mixed_size("a", 8, 4)),))
    mix = Mix(((vm("T4-8Q"), 0.7), (vm("T4-4Q"), 0.3)))
    assert run(Placer(fleet, LEAST, mix=mix), vm("T4-4Q")) == ["a"]


def test_gpus_are_not_stranded_by_taking_the_vcpus_beside_them() -> None:
    """A VM without GPUs goes where no GPU idles, though the other host is as empty."""
    fleet = Fleet(hosts=(host("with", gpu("a"), vcpus=8), host("without", vcpus=8)))
    mix = Mix(((vm("T4-4Q", vcpus=4), 1.0),))
    assert run(Placer(fleet, LEAST, mix=mix), vm(vcpus=6)) == ["without"]


def test_a_vm_without_gpus_goes_where_none_are_even_if_those_elsewhere_are_all_taken() -> None:
    fleet = Fleet(hosts=(host("with", gpu("a", 16), vcpus=8), host("without", vcpus=64)))
    assert run(Placer(fleet, LEAST), *copies(2, vm(vcpus=6))) == ["without", "without"]
    assert run(Placer(fleet, LEAST), *copies(2, vm(vcpus=60))) == ["without", "-"]


FOUR = Fleet(hosts=(host("h1", gpu("a"), gpu("b")), host("h2", gpu("c"), gpu("d"))))


def test_vms_of_one_size_are_alone_on_their_gpu_while_there_is_room_and_no_fewer_fit() -> None:
    placer = Placer(FOUR, LEAST, mix=Mix(((vm("T4-4Q"), 1.0),)))
    assert run(placer, *copies(4, vm("T4-4Q"))) == ["a", "c", "b", "d"]
    assert run(placer, *copies(12, vm("T4-4Q"))).count("-") == 0
    assert run(placer, vm("T4-4Q")) == ["-"]


@pytest.mark.parametrize(
    "other",
    [
        vm("T4-8Q"),
        vm("passthrough"),
        vm("T4-4Q", "T4-4Q"),
        vm("T4-4Q", vcpus=1),
    ],
    ids=["another size", "a whole GPU", "two of them", "another host share"],
)
def test_vms_share_gpus_where_something_else_is_expected_however_rarely(other: VmSpec) -> None:
    """What stays empty is for the other."""
    rare = Placer(FOUR, LEAST, mix=Mix(((vm("T4-4Q"), 1.0),), rare=(other,)))
    assert run(rare, *copies(4, vm("T4-4Q"))) == ["a", "a", "a", "a"]


def test_what_else_is_expected_elsewhere_keeps_no_vms_together_here() -> None:
    """No T4 is asked for whole, though other GPUs are."""
    whole = replace(vm(), gpus=(GpuRequest(profile="passthrough", model="H100"),))
    placer = Placer(FOUR, LEAST, mix=Mix(((vm("T4-4Q"), 1.0), (whole, 1.0))))
    assert set(run(placer, *copies(4, vm("T4-4Q")))) == {"a", "b", "c", "d"}


def test_an_order_of_ten_says_what_is_expected_where_nothing_else_does() -> None:
    few, many = copies(9, vm("T4-4Q")), copies(10, vm("T4-4Q"))
    assert len({*where(place(FOUR, few, LEAST))}) == 3
    assert len({*where(place(FOUR, many, LEAST))}) == 4


def test_whole_gpus_are_kept_whole_for_those_who_want_them_whole() -> None:
    fleet = Fleet(hosts=(host("h1", gpu("a"), gpu("b")), host("h2", gpu("c", 2), gpu("d"))))
    mix = Mix(((vm("passthrough", "passthrough"), 1.0), (vm("T4-2Q"), 1.0)))
    placer = Placer(fleet, LEAST, mix=mix)
    assert run(placer, vm("T4-2Q"), vm("T4-2Q"), vm("passthrough", "passthrough")) == [
        "c", "c", "a",
    ]  # fmt: skip


def test_a_set_of_models_means_any_of_them() -> None:
    old, new = replace(gpu("old"), model="A40"), replace(gpu("new"), model="L40S")
    fleet = Fleet(hosts=(host("h1", gpu("t4")), host("h2", old), host("h3", new)))
    part = GpuRequest(profile="T4-2Q", models=("l40s", "a40"))
    for policy in PlacementPolicy:
        decisions = place(fleet, copies(20, replace(vm(), gpus=(part,))), policy)
        assert set(where(decisions)) == {"old", "new", "-"}
        refused = [each for each in decisions if isinstance(each, NotPlaced)]
        assert len(refused) == 4
        assert "t4 is not of model l40s or a40" in refused[0].reasons[0].text


def test_without_explain_a_no_is_without_reasons() -> None:
    placer = Placer(Fleet(hosts=(host("h1"),)), LEAST)
    assert placer.decide(vm("T4-1Q"), explain=False) == NotPlaced(request=vm("T4-1Q"), reasons=())
    refused = placer.decide(vm("T4-1Q"))
    assert isinstance(refused, NotPlaced)
    assert refused.reasons


def test_ties_go_by_the_fleet_s_order_or_by_the_seed() -> None:
    fleet = Fleet(hosts=tuple(host(f"h{n}", gpu(f"g{n}")) for n in range(20)))
    first = {seed: run(Placer(fleet, LEAST, seed=seed), vm("T4-4Q"))[0] for seed in range(8)}
    assert run(Placer(fleet, LEAST), vm("T4-4Q")) == ["g0"]
    assert len(set(first.values())) > 1
    assert first == {seed: run(Placer(fleet, LEAST, seed=seed), vm("T4-4Q"))[0] for seed in first}


def test_a_history_keeps_the_commonest_types_and_knows_the_rare() -> None:
    history = [*copies(80, vm("T4-2Q")), *copies(19, vm("T4-4Q")), vm("T4-8Q")]
    mix = Mix.of(history)
    assert [weight for _, weight in mix.requests] == [80, 19]
    assert [request.gpus[0].profile for request in mix.rare] == ["T4-8Q"]


def test_a_weight_must_be_positive() -> None:
    with pytest.raises(ValueError, match="not positive"):
        Mix(((vm("T4-2Q"), 0.0),))


def test_the_gauge_counts_what_nobody_in_the_mix_can_use() -> None:
    """``a`` has 2 of 16 GiB free, ``b`` all: a mix of 4Q can use ``b`` alone."""
    fleet = Fleet(
        hosts=(host("h1", mixed_size("a", 8, 4, 2), mixed_size("b")), host("no GPU")),
    )
    gauge = Placer(fleet, LEAST, mix=Mix(((vm("T4-4Q"), 1.0),))).fragmentation()
    assert [each.host for each in gauge.hosts] == ["h1"]
    assert gauge.free_mib == pytest.approx(18 * 1024)
    assert gauge.unusable_mib == pytest.approx(2 * 1024)
    assert gauge.share == pytest.approx(2 / 18)
    short = Placer(fleet, LEAST, mix=Mix(((vm("T4-4Q", vcpus=65), 1.0),))).fragmentation()
    assert short.share == 1.0


def test_the_gauge_moves_with_commit_and_release() -> None:
    fleet = Fleet(hosts=(host("h1", mixed_size("a")),))
    placer = Placer(fleet, LEAST, mix=Mix(((vm("T4-16Q"), 1.0),)))
    decision = placer.decide(vm("T4-1Q"))
    assert isinstance(decision, Placed)
    assert placer.fragmentation().share == 0.0
    placer.commit(decision)
    assert placer.fragmentation().share == 1.0
    placer.release(decision)
    assert placer.fragmentation().share == 0.0


QUARTERS = Mix(((vm("T4-4Q"), 1.0),), rare=(vm("T4-8Q"),))


def two_classes(*hosts: str) -> CapacityPlan:
    """VMs with one 4Q are meant for hosts of both classes, two for each class."""
    demand = demand_of(vm("T4-4Q"), LEAST, founding=False)
    return CapacityPlan(
        classes={name: int(name.startswith("new")) for name in hosts},
        groups={group_key(demand): 0},
        quotas=np.array([[2.0], [2.0]]),
        prices=(),
        fits=4.0,
    )


def test_a_plan_steers_between_classes_and_refuses_nothing() -> None:
    names = "old-1", "new-1", "old-2"
    fleet = Fleet(hosts=tuple(host(name, gpu(name)) for name in names))
    placer = Placer(fleet, LEAST, mix=QUARTERS, plan=two_classes(*names))
    assert run(placer, *copies(4, vm("T4-4Q"))) == ["old-1", "old-1", "new-1", "new-1"]
    assert len(set(run(placer, *copies(8, vm("T4-4Q"))))) == 3
    assert run(placer, vm("T4-4Q")) == ["-"]


def test_a_plan_adopted_later_counts_what_is_held_and_none_takes_it_back() -> None:
    names = "new-1", "old-1", "new-2"
    fleet = Fleet(hosts=tuple(host(name, gpu(name)) for name in names))
    placer = Placer(fleet, LEAST, mix=QUARTERS)
    assert run(placer, *copies(2, vm("T4-4Q"))) == ["new-1", "new-1"]
    placer.adopt_plan(two_classes(*names))
    assert run(placer, *copies(2, vm("T4-4Q"))) == ["old-1", "old-1"]
    placer.adopt_plan(None)
    assert run(placer, vm("T4-4Q")) == ["new-1"]


def test_what_is_held_does_not_count_against_a_plan_of_what_is_free() -> None:
    names = "new-1", "old-1", "new-2"
    fleet = Fleet(hosts=tuple(host(name, gpu(name)) for name in names))
    placer = Placer(fleet, LEAST, mix=QUARTERS)
    assert run(placer, *copies(2, vm("T4-4Q"))) == ["new-1", "new-1"]
    placer.adopt_plan(two_classes(*names), of_what_is_free=True)
    assert run(placer, *copies(3, vm("T4-4Q"))) == ["new-1", "new-1", "old-1"]


def test_what_left_before_a_plan_was_adopted_does_not_count() -> None:
    fleet = Fleet(hosts=(host("new-1", gpu("new-1")), host("old-1", gpu("old-1"))))
    placer = Placer(fleet, LEAST, mix=QUARTERS)
    for _ in range(2):
        decision = placer.decide(vm("T4-4Q"))
        assert isinstance(decision, Placed)
        placer.commit(decision)
        placer.release(decision)
    placer.adopt_plan(two_classes("new-1", "old-1"))
    assert run(placer, *copies(3, vm("T4-4Q"))) == ["new-1", "new-1", "old-1"]


def test_a_mix_adopted_later_is_what_counts() -> None:
    """As ``a gap is filled``: what the mix makes of 8 GiB and of 4 decides."""
    fleet = Fleet(hosts=(host("h1", mixed_size("b", 8), mixed_size("a", 8, 4)),))
    placer = Placer(fleet, LEAST, mix=Mix(((vm("T4-4Q"), 1.0),)))
    before = placer.fragmentation().share
    placer.adopt_mix(Mix(((vm("T4-8Q"), 1.0),)))
    assert before == 0.0
    assert placer.fragmentation().share == pytest.approx(4 / 12)
    assert run(placer, vm("T4-4Q"), vm("T4-8Q")) == ["a", "b"]


def test_a_vm_that_prefers_one_numa_node_goes_where_one_has_it_all() -> None:
    """Least fragmentation would take ``torn``, whose GPUs are used already."""
    nodes = tuple(NumaSupply(id=n, free_cpus=(), free_memory_mib=8192) for n in (0, 1))
    torn = replace(host("torn", gpu("a", 8, numa_node=0), gpu("b", 8, numa_node=1)), numa=nodes)
    whole = replace(host("whole", gpu("c", numa_node=0), gpu("d", numa_node=0)), numa=nodes)
    two = replace(vm("T4-8Q", "T4-8Q"), numa=NumaPolicy.PREFER)
    mix = Mix(((vm("T4-8Q"), 1.0),))
    fleet = Fleet(hosts=(torn, whole))
    assert run(Placer(fleet, LEAST, mix=mix), two) == ["c"]
    assert run(Placer(fleet, LEAST, mix=mix), replace(two, numa=NumaPolicy.NONE)) == ["a"]


def test_with_values_mig_gpus_are_filled_as_the_driver_allows() -> None:
    slices = GpuSupply(
        id="", device="", model="A100", numa_node=None, units=UNITS, gpu_slices=7,
        free_slots=tuple(range(UNITS)), offers=MIG[:3],
        free_vfs=tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(16)),
    )  # fmt: skip
    gpus = [replace(slices, id=f"g{n}", device=f"g{n}") for n in range(3)]
    fleet = Fleet(hosts=tuple(host(f"h{n}", each) for n, each in enumerate(gpus)))
    mix = Mix(((vm("1g"), 3.0), (vm("1g.big"), 1.0)))
    placer, live = Placer(fleet, LEAST, mix=mix, values=True), []
    for request in copies(30, vm("1g.big")) + copies(30, vm("1g")):
        decision = placer.decide(request)
        if isinstance(decision, Placed):
            placer.commit(decision)
            live.append(decision)
            assert complaints(fleet, live) == []
    assert len(live) == 12
    for placed in live[::2]:
        placer.release(placed)
    assert isinstance(placer.decide(vm("1g.big", "1g.big")), Placed)


def test_a_blocked_host_takes_no_vm_until_it_is_opened_again() -> None:
    fleet = Fleet(hosts=tuple(host(name, gpu(name)) for name in ("h1", "h2")))
    for policy in PlacementPolicy:
        placer = Placer(fleet, policy)
        (first,) = run(placer, vm("T4-2Q"))
        placer.block(first, "rack 7 is down")
        other = ({"h1", "h2"} - {first}).pop()
        assert run(placer, vm("T4-2Q"), vm("T4-16Q")) == [other, "-"]
        refused = placer.decide(vm("T4-16Q"))
        assert isinstance(refused, NotPlaced)
        assert f"{first}: rack 7 is down" in [reason.text for reason in refused.reasons]
        placer.block(other, "so is rack 8")
        assert run(placer, vm("T4-1Q")) == ["-"]
        placer.block(first, "")
        assert run(placer, vm("T4-2Q")) == [first]
        assert not any(each.blocked for each in placer.fleet.hosts)


def test_what_a_blocked_host_holds_can_leave_and_comes_free_with_it() -> None:
    placer = Placer(Fleet(hosts=(host("h1", gpu("a")),)), LEAST)
    held = placer.decide(vm("T4-16Q"))
    assert isinstance(held, Placed)
    placer.commit(held)
    placer.block("h1", "maintenance")
    placer.release(held)
    assert run(placer, vm("T4-16Q")) == ["-"]
    placer.block("h1", "")
    assert run(placer, vm("T4-16Q")) == ["a"]


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_types_that_came_long_ago_are_forgotten_and_nothing_else_changes(
    policy: PlacementPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(hosts=tuple(host(f"h{n}", gpu(f"g{n}")) for n in range(4)))
    requests = [vm("T4-2Q", vcpus=n % 7) for n in range(20)]
    unlimited = run(Placer(fleet, policy), *requests)
    monkeypatch.setattr("vgpumgr.placement.scores.score_matrix.MOST_TYPES", 3)
    placer = Placer(fleet, policy)
    assert run(placer, *requests) == unlimited
    for plane in placer._matrix._planes.values():
        assert len(plane.request_types.demands) <= 3


def test_a_mix_has_no_more_types_than_a_decision_can_look_at() -> None:
    history = [vm("T4-2Q", vcpus=n) for n in range(1000)]
    mix = Mix.of(history)
    assert len(mix.requests) == len(mix.rare) == 256


def test_a_mix_of_what_never_fits_leaves_gpus_in_mig_without_values() -> None:
    """Two in one VM where the driver allows one: refused, and no reason to give up."""
    alone = tuple(replace(offer, max_per_vm=1) for offer in MIG[:3])
    slices = GpuSupply(
        id="g", device="g", model="A100", numa_node=None, units=UNITS, gpu_slices=7,
        free_slots=tuple(range(UNITS)), offers=alone,
        free_vfs=tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(16)),
    )  # fmt: skip
    two = replace(vm("1g"), gpus=(GpuRequest(profile="1g", count=2),))
    placer = Placer(Fleet(hosts=(host("h1", slices),)), LEAST, mix=Mix(((two, 1.0),)))
    assert run(placer, two, vm("1g")) == ["-", "g"]
